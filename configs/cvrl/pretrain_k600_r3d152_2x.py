_base_ = './pretrain_k600.py'
# 2x widens the backbone and every layer of the projection (Sec. 3.2)
model = dict(
    backbone=dict(
        depth=152,
        width=2,
        recompute=dict(stem=1, layer1=2, layer2=2, layer3=4),
    ),
    cls_head=dict(hidden_channels=4096, out_channels=256),
)
