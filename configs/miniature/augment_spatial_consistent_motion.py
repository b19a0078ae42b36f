# Spatial augmentation alone with one draw for the clip, which Table 9 does not list.
_base_ = './cvrl_motion.py'
sample = _base_.sample
sample.update(density='none')
train_pipeline = [_base_.open_video, sample, _base_.decode, _base_.augment, *_base_.pack]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
