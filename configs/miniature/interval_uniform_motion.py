# Figure 3 (d) on the generated videos.
_base_ = './cvrl_motion.py'
train_pipeline = _base_.train_pipeline
train_pipeline[1].update(density='uniform')
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
