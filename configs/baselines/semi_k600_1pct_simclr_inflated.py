# SimCLR inflated. Paper: 16.9 % (Table 10).
_base_ = '../semi_supervised/semi_k600_1pct.py'
model = dict(backbone=dict(init_cfg=dict(checkpoint='checkpoints/r3d50_simclr_k600_inflated.pth')))
