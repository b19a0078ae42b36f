# 4x filters in the backbone and in every layer of the projection (Sec. 3.2)
_base_ = '../cvrl/pretrain_k400_200e.py'
# At this width one block needs 42 GiB for 128 videos: batch norm sees chunks of 16 videos per GPU
model = dict(
    backbone=dict(width=4),
    chunk_size=16,
    cls_head=dict(hidden_channels=8192, out_channels=512),
)
