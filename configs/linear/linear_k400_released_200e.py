# The released checkpoint, 200 epochs of Kinetics-400: 63.8 %.
_base_ = './linear_k400_released.py'
model = dict(backbone=dict(init_cfg=dict(checkpoint='checkpoints/r3d_1x_k400_200ep.pth')))
