_base_ = './size_r3d50_4x.py'
model = dict(backbone=dict(depth=101), chunk_size=8)
