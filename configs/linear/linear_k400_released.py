# The released checkpoint, 800 epochs of Kinetics-400: 66.1 %. Convert it first:
#   python tools/convert_checkpoint.py tf r3d_1x_k400_800ep.tar.gz checkpoints/r3d_1x_k400_800ep.pth
_base_ = './linear_k400.py'
model = dict(
    backbone=dict(
        padding='tf_same',
        init_cfg=dict(checkpoint='checkpoints/r3d_1x_k400_800ep.pth'),
    )
)
