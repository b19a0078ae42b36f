_base_ = '../cvrl/pretrain_k400_200e.py'
model = dict(backbone=dict(depth=101))
