# Only spatial augmentation, with one draw per clip; Table 9 does not list this.
_base_ = './cvrl_motion.py'
sample = _base_.sample
sample.update(density='none')
train_pipeline = [_base_.open_video, sample, _base_.decode, _base_.augment, *_base_.pack]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
