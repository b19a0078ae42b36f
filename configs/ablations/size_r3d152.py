_base_ = '../cvrl/pretrain_k400_200e.py'
recompute = dict(stem=1, layer1=3, layer2=4, layer3='branch', layer4='last')
model = dict(backbone=dict(depth=152, recompute=recompute))
