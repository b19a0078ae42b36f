# SimCLR inflated. Paper: 46.8 % (Table 2).
_base_ = '../linear/linear_k400.py'
model = dict(backbone=dict(init_cfg=dict(checkpoint='checkpoints/simclr_k400_inflated.pth')))
