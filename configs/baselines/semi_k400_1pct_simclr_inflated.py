# SimCLR inflated. Paper: 11.8 % (Table 3).
_base_ = '../semi_supervised/semi_k400_1pct.py'
model = dict(backbone=dict(init_cfg=dict(checkpoint='checkpoints/r3d50_simclr_inflated.pth')))
