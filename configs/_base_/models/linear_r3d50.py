# The encoder of pre-training, fixed and in evaluation mode, and a linear classifier.
_base_ = './recognizer_r3d50.py'
model = dict(
    backbone=dict(frozen_stages=4, norm_eval=True),
    cls_head=dict(l2_normalize=True, dropout_ratio=0.0),  # Sec. 4.1; no dropout: the released code
)
