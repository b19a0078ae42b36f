# Spatial augmentation alone with one draw for the clip, which Table 9 does not list.
_base_ = './cvrl_motion.py'
train_pipeline = _base_.train_pipeline
train_pipeline[1].update(density='none')
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
