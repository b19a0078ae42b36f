# Table 11: RandAugment, drawn once a clip, in place of jitter, grey and blur. 54.2 %.
_base_ = '../cvrl/pretrain_k400_200e.py'
train_pipeline = _base_.train_pipeline
train_pipeline[3].transforms[3:] = [dict(type='ClipRandAugment', num_ops=2, magnitude=9)]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
