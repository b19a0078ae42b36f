_base_ = './size_r3d50_2x.py'
model = dict(backbone=dict(depth=101, recompute=dict(layer3=4)))
