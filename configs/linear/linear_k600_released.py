# The released checkpoint, 800 epochs of Kinetics-600: 70.4 %.
_base_ = './linear_k600.py'
model = dict(
    backbone=dict(
        padding='tf_same',
        init_cfg=dict(checkpoint='checkpoints/r3d_1x_k600_800ep.pth'),
    )
)
