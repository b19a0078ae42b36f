_base_ = './pretrain_k600.py'
model = dict(
    backbone=dict(
        depth=101,
        recompute=dict(layer1='last', layer2=4, layer3='last', layer4='last'),
    )
)
