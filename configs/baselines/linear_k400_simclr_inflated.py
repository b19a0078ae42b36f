# SimCLR inflated. Paper: 46.8 % (Table 2).
_base_ = '../linear/linear_k400.py'
model = dict(backbone=dict(init_cfg=dict(checkpoint='checkpoints/r3d50_simclr_inflated.pth')))
