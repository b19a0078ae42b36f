_base_ = './pretrain_k400.py'
model = dict(backbone=dict(depth=101))
