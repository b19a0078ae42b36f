# Table 9, row 1, on the generated videos: random intervals, whole frames.
_base_ = './cvrl_motion.py'
augment = dict(type='ConsistentAugment', over='clip', transforms=[_base_.resize])
train_pipeline = [_base_.open_video, _base_.sample, _base_.decode, augment, *_base_.pack]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
