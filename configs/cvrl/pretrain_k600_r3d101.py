_base_ = './pretrain_k600.py'
model = dict(backbone=dict(depth=101))
