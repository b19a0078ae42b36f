# Paper: 67.6 % (Table 2).
_base_ = './linear_k400.py'
checkpoint = 'work_dirs/pretrain_k400_r3d101/epoch_800.pth'
model = dict(backbone=dict(depth=101, init_cfg=dict(checkpoint=checkpoint)))
