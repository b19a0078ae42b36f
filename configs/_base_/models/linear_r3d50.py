# The encoder of pre-training, fixed and in evaluation mode, and a linear classifier.
_base_ = './recognizer_r3d50.py'
model = dict(
    backbone=dict(frozen_stages=4, norm_eval=True),
    cls_head=dict(
        _delete_=True,
        type='LinearProbeHead',
        num_classes=400,
        in_channels=2048,
        l2_normalize=True,  # Sec. 4.1
        average_clips='prob',  # over the test views: the released code
    ),
)
