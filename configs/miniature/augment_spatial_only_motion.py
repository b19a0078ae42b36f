# Table 9, row 2, on the generated videos: both clips are the same frames, each with its own draws.
_base_ = './augment_inconsistent_motion.py'
train_pipeline = _base_.train_pipeline
train_pipeline[1].update(density='none')
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
