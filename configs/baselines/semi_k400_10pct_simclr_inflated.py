# SimCLR inflated. Paper: 46.1 % (Table 3).
_base_ = '../semi_supervised/semi_k400_10pct.py'
model = dict(backbone=dict(init_cfg=dict(checkpoint='checkpoints/r3d50_simclr_inflated.pth')))
