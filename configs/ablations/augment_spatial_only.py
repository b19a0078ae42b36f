# Table 9, row 2, without a mark for consistency: both clips are the same frames. 40.9 %.
_base_ = './augment_inconsistent.py'
train_pipeline = _base_.train_pipeline
train_pipeline[1].update(density='none')
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
