# Table 9, row 3, on the generated videos: every frame is augmented with its own random numbers.
_base_ = './cvrl_motion.py'
augment = _base_.augment
augment.update(over='frame')
train_pipeline = [_base_.open_video, _base_.sample, _base_.decode, augment, *_base_.pack]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
