# Minutes on a CPU instead of days on a cluster: AdamW, no mixed precision, counted in steps
optim_wrapper = dict(optimizer=dict(type='AdamW', lr=8e-3, weight_decay=1e-4))
train_cfg = dict(type='SeededIterLoop', max_iters=800)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.01, by_epoch=False, end=100),
    dict(type='CosineAnnealingLR', by_epoch=False, eta_min=0.0),
]
sync_bn = 'torch'  # several GPUs are as one with all of their videos
