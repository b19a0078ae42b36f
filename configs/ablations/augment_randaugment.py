# Table 11: RandAugment, drawn once per clip, in place of jitter, grayscale and blur. 54.2 %.
_base_ = '../cvrl/pretrain_k400_200e.py'
randaugment = dict(type='ClipRandAugment', num_ops=2, magnitude=9)
augment = dict(
    type='ConsistentAugment',
    over='clip',
    transforms=[_base_.crop, _base_.resize, _base_.flip, randaugment],
)
train_pipeline = [_base_.open_video, _base_.sample, _base_.decode, augment, *_base_.pack]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
