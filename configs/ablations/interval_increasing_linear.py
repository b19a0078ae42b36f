# Figure 3 (e). Linear evaluation in the paper: 62.4 %.
_base_ = '../cvrl/pretrain_k400_200e.py'
train_pipeline = _base_.train_pipeline
train_pipeline[1].update(density='increasing')
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
