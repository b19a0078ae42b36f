_base_ = '../cvrl/pretrain_k400_200e.py'
model = dict(
    backbone=dict(
        depth=152,
        recompute=dict(stem=1, layer1=3, layer2=4, layer3='last', layer4='last'),
    )
)
