# Table 9, row 3, on the generated videos: every frame is augmented with draws of its own.
_base_ = './cvrl_motion.py'
train_pipeline = _base_.train_pipeline
train_pipeline[3].update(over='frame')
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
