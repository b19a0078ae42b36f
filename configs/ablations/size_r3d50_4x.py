# 4x filters in the backbone and in every layer of the projection (Sec. 3.2)
_base_ = '../cvrl/pretrain_k400_200e.py'
model = dict(
    backbone=dict(width=4),
    cls_head=dict(in_channels=8192, hidden_channels=8192, out_channels=512),
)
