# Sec. 4.1: SGD with momentum 0.9, batch 1024, learning rate 0.32
optim_wrapper = dict(
    type='AutocastOptimWrapper',  # bfloat16, as the released code
    optimizer=dict(type='SGD', lr=0.32, momentum=0.9, weight_decay=1e-6),
    # The released code decays only kernels
    paramwise_cfg=dict(norm_decay_mult=0.0, bias_decay_mult=0.0),
)
# --auto-scale-lr scales the learning rate from these 8 ranks x 128 videos
auto_scale_lr = dict(enable=False, base_batch_size=1024)

train_cfg = dict(type='SeededEpochLoop', max_epochs=800)  # Table 8
# Warm-up over 5 epochs, times half a cosine over the whole training (train_cfg.max_epochs). A trial
# of a few epochs needs a shorter warm-up: --cfg-options param_scheduler.0.end=1
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-6, end=5, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', eta_min=0.0, convert_to_iter_based=True),
]
# Batch-norm statistics over all ranks, also in the projection (Sec. 4.1)
sync_bn = 'torch'
