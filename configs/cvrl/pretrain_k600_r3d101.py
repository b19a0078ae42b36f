_base_ = './pretrain_k600.py'
model = dict(
    backbone=dict(
        depth=101,
        recompute=dict(layer1='branch', layer2='branch', layer3='branch', layer4='last'),
    )
)
