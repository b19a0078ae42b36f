# Figure 3 (b). Linear evaluation in the paper: 63.1 %.
_base_ = '../cvrl/pretrain_k400_200e.py'
train_pipeline = _base_.train_pipeline
train_pipeline[1].update(density='decreasing', power=0.5)
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
