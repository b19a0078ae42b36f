# The released checkpoint, 800 epochs of Kinetics-400: 66.1 %. Convert it first:
#   cvrl convert tf r3d_1x_k400_800ep.tar.gz checkpoints/r3d_1x_k400_800ep.pth
_base_ = './linear_k400.py'
model = dict(
    backbone=dict(
        padding='tf_same',
        init_cfg=dict(checkpoint='checkpoints/r3d_1x_k400_800ep.pth'),
    )
)
train_pipeline = [
    _base_.open_video,
    _base_.sample_train,
    _base_.decode,
    dict(type='TFRandomResizedCrop', area_range=(0.3, 1.0), aspect_ratio_range=(0.5, 2.0)),
    _base_.resize,
    _base_.flip,
    *_base_.pack,
]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
