# The released checkpoint, 800 epochs of Kinetics-600: 68.5 %.
_base_ = './linear_k400_released.py'
model = dict(backbone=dict(init_cfg=dict(checkpoint='checkpoints/r3d_1x_k600_800ep.pth')))
