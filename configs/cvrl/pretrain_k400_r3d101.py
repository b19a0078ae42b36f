_base_ = './pretrain_k400.py'
model = dict(backbone=dict(depth=101, recompute=dict(stem=1, layer1=3, layer2=4)))
