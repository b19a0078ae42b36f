# Figure 3 (c). Linear evaluation in the paper: 62.9 %.
_base_ = '../cvrl/pretrain_k400_200e.py'
train_pipeline = _base_.train_pipeline
train_pipeline[1].update(density='decreasing', power=2.0)
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
