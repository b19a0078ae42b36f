# SimCLR inflated. Paper: 51.6 % (Table 2).
_base_ = '../linear/linear_k600.py'
model = dict(backbone=dict(init_cfg=dict(checkpoint='checkpoints/r3d50_simclr_k600_inflated.pth')))
