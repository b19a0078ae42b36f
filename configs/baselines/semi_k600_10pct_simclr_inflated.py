# SimCLR inflated. Paper: 51.4 % (Table 10).
_base_ = '../semi_supervised/semi_k600_10pct.py'
model = dict(backbone=dict(init_cfg=dict(checkpoint='checkpoints/r3d50_simclr_k600_inflated.pth')))
