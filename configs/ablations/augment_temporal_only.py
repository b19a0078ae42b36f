# Table 9, row 1: random intervals, the same center crop of all frames. 33.0 %.
_base_ = '../cvrl/pretrain_k400_200e.py'
augment = dict(
    type='ConsistentAugment',
    over='clip',
    transforms=[dict(type='Resize', scale=(-1, 256)), dict(type='CenterCrop', crop_size=224)],
)
train_pipeline = [_base_.open_video, _base_.sample, _base_.decode, augment, *_base_.pack]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
