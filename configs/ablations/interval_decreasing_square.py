# Figure 3 (c). Linear evaluation in the paper: 62.9 %.
_base_ = '../cvrl/pretrain_k400_200e.py'
sample = _base_.sample
sample.update(density='decreasing', power=2.0)
train_pipeline = [_base_.open_video, sample, _base_.decode, _base_.augment, *_base_.pack]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
