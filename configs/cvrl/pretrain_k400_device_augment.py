# Colour and blur on the device instead of in the loader, for nodes with few CPU cores a GPU.
_base_ = './pretrain_k400.py'
model = dict(
    data_preprocessor=dict(
        type='ClipAugmentDataPreprocessor',
        transforms=[_base_.jitter, _base_.grayscale, _base_.blur],
    )
)
augment = dict(
    type='ConsistentAugment',
    over='clip',
    transforms=[_base_.crop, _base_.resize, _base_.flip],
)
train_pipeline = [_base_.open_video, _base_.sample, _base_.decode, augment, *_base_.pack]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
