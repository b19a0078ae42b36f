_base_ = './pretrain_k600.py'
# 2x widens the backbone and every layer of the projection (Sec. 3.2)
model = dict(
    backbone=dict(depth=152, width=2),
    cls_head=dict(in_channels=4096, hidden_channels=4096, out_channels=256),
)
