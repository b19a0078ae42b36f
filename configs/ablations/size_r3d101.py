_base_ = '../cvrl/pretrain_k400_200e.py'
model = dict(
    backbone=dict(
        depth=101,
        recompute=dict(layer1='last', layer2=4, layer3='last', layer4='last'),
    )
)
