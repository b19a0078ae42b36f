_base_ = '../cvrl/pretrain_k400_200e.py'
model = dict(
    backbone=dict(
        depth=101,
        recompute=dict(layer1='branch', layer2='branch', layer3='branch', layer4='last'),
    )
)
