_base_ = './size_r3d50_2x.py'
model = dict(backbone=dict(depth=101, recompute=dict(stem=1, layer1=2, layer3=4)))
