# Table 9, row 2, on the generated videos: both clips are the same frames, augmented frame by frame.
_base_ = './augment_inconsistent_motion.py'
sample = _base_.sample
sample.update(density='none')
train_pipeline = [_base_.open_video, sample, _base_.decode, _base_.augment, *_base_.pack]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
