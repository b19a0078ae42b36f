optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=4e-3, weight_decay=1e-4),
    clip_grad=dict(max_norm=40, norm_type=2),
)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.1, by_epoch=False, begin=0, end=20),
    dict(type='MultiStepLR', milestones=[6], gamma=0.1, by_epoch=True, begin=0, end=8),
]
train_cfg = dict(type='SeededEpochLoop', max_epochs=8, val_interval=8)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')
