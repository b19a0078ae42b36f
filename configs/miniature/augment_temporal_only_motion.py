# Table 9, row 1, on the generated videos: intervals are drawn, frames stay whole.
_base_ = './cvrl_motion.py'
train_pipeline = _base_.train_pipeline
train_pipeline[3].transforms = [dict(type='Resize', scale=(32, 32), keep_ratio=False)]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
