# Table 9, row 3: every frame is augmented with draws of its own. 52.3 %.
_base_ = '../cvrl/pretrain_k400_200e.py'
train_pipeline = _base_.train_pipeline
train_pipeline[3].update(over='frame')
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
