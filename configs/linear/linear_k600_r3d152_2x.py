# Pre-trained on Kinetics-600. Paper: 72.9 % (Table 2).
_base_ = './linear_k600.py'
checkpoint = 'work_dirs/pretrain_k600_r3d152_2x/epoch_800.pth'
model = dict(
    backbone=dict(depth=152, width=2, init_cfg=dict(checkpoint=checkpoint)),
    cls_head=dict(in_channels=4096),
)
