# Figure 3 (d). Linear evaluation in the paper: 62.7 %.
_base_ = '../cvrl/pretrain_k400_200e.py'
train_pipeline = _base_.train_pipeline
train_pipeline[1].update(density='uniform')
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
