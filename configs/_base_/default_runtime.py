custom_imports = dict(imports=['cvrl_mm'], allow_failed_imports=False)
default_scope = 'mmaction'

default_hooks = dict(
    runtime_info=dict(type='DeferredRuntimeInfoHook'),  # reads losses when they are logged
    timer=dict(type='IterTimerHook'),
    logger=dict(type='LoggerHook', interval=20, ignore_last=False),
    param_scheduler=dict(type='ParamSchedulerHook'),
    checkpoint=dict(type='AtomicCheckpointHook', interval=1, max_keep_ckpts=3, save_last=True),
    sampler_seed=dict(type='DistSamplerSeedHook'),
    sync_buffers=dict(type='SyncBuffersHook'),
    throughput=dict(type='ThroughputHook'),  # videos per second, share of waiting for data
    plain_checkpoint=dict(type='WeightsOnlyCheckpointHook'),  # loads with weights_only=True
    sample_seed=dict(type='SampleSeedHook'),  # the same draws after a restart
    config_schedule=dict(type='ConfigScheduleHook'),  # after --resume with other epochs or GPUs
    bad_videos=dict(type='BadVideosHook', max_share=0.05),
    batch_timeout=dict(type='BatchTimeoutHook', timeout_seconds=500),  # below that of dist_cfg
    preemption=dict(type='PreemptionHook'),  # save on SIGTERM and Ctrl-C
    finite_loss=dict(type='FiniteLossHook'),
    head_channels=dict(type='HeadChannelsHook'),  # must match the backbone
    labels=dict(type='LabelsCheckHook'),  # each one of a class that the head has
    initial_weights=dict(type='InitialWeightsHook'),  # the same ones after --resume
    fitting_checkpoint=dict(type='StrictLoadHook'),  # all weights must be in the file
)

env_cfg = dict(
    cudnn_benchmark=True,  # every batch has the same shape
    mp_cfg=dict(mp_start_method='fork', opencv_num_threads=0),
    dist_cfg=dict(backend='nccl', timeout=600),  # in seconds, for any exchange between ranks
)
randomness = dict(seed=0, diff_rank_seed=True)
log_processor = dict(
    type='LogProcessor',
    window_size=20,
    by_epoch=True,
    # Log means over the window; accuracy and entropy are not in mmengine's default
    mean_pattern=r'.*(loss|time|data_time|grad_norm|accuracy|entropy).*',
)
vis_backends = [dict(type='LocalVisBackend')]
visualizer = dict(type='ActionVisualizer', vis_backends=vis_backends)

log_level = 'INFO'
load_from = None
resume = False
