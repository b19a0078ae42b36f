# 2x filters in the backbone and in every layer of the projection (Sec. 3.2)
_base_ = '../cvrl/pretrain_k400_200e.py'
model = dict(
    backbone=dict(
        width=2,
        recompute=dict(layer1=1, layer2=2, layer3='last', layer4='last'),
    ),
    cls_head=dict(hidden_channels=4096, out_channels=256),
)
