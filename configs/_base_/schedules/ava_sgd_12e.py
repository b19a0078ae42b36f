# Sec. 4.1: 12 epochs, learning rate 0.2 for 32 videos, divided by 10 at epochs 8 and 11
optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='SGD', lr=0.2, momentum=0.9, weight_decay=1e-7),  # decay: SlowFast
    paramwise_cfg=dict(norm_decay_mult=0.0),
    clip_grad=dict(max_norm=40, norm_type=2),  # as in MMAction2's AVA configs
)
# --auto-scale-lr scales the learning rate from these 8 ranks x 4 videos
auto_scale_lr = dict(enable=False, base_batch_size=32)

param_scheduler = [
    # SlowFast warms up over its first 1000 steps
    dict(type='LinearLR', start_factor=0.00125, by_epoch=False, begin=0, end=1000),
    dict(type='MultiStepLR', milestones=[8, 11], gamma=0.1, by_epoch=True, begin=0, end=12),
]
train_cfg = dict(type='SeededEpochLoop', max_epochs=12, val_interval=12)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')
# Batch-norm statistics over all ranks, as one rank has only 4 videos
sync_bn = 'torch'
