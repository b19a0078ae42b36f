# The released checkpoint, 800 epochs of Kinetics-600: 70.4 %.
_base_ = './linear_k600.py'
model = dict(
    backbone=dict(
        padding='tf_same',
        init_cfg=dict(checkpoint='checkpoints/r3d_1x_k600_800ep.pth'),
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
