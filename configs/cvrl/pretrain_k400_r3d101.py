_base_ = './pretrain_k400.py'
part = 'branch'
recompute = dict(layer1=part, layer2=part, layer3=part, layer4='last')
model = dict(backbone=dict(depth=101, recompute=recompute))
