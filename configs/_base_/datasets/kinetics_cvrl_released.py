# The augmentation of the released code: the first clip is always blurred, the second one with
# probability 0.1, and the second one is solarised with probability 0.2. Crops are drawn as in
# TensorFlow (docs/released_code.md).
_base_ = './kinetics_cvrl.py'
crop = dict(type='TFRandomResizedCrop', area_range=(0.3, 1.0), aspect_ratio_range=(0.5, 2.0))
blur = dict(**_base_.blur, prob=(1.0, 0.1))
solarize = dict(type='ClipSolarize', threshold=0.5, prob=(0.0, 0.2))
augment = dict(
    type='ConsistentAugment',
    over='clip',
    transforms=[
        crop,
        _base_.resize,
        _base_.flip,
        _base_.jitter,
        _base_.grayscale,
        blur,
        solarize,
    ],
)
train_pipeline = [_base_.open_video, _base_.sample, _base_.decode, augment, *_base_.pack]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
