# Figure 3 (b). Linear evaluation in the paper: 63.1 %.
_base_ = '../cvrl/pretrain_k400_200e.py'
sample = _base_.sample
sample.update(density='decreasing', power=0.5)
train_pipeline = [_base_.open_video, sample, _base_.decode, _base_.augment, *_base_.pack]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
