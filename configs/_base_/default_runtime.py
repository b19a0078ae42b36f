custom_imports = dict(imports=['cvrl_mm'], allow_failed_imports=False)
default_scope = 'mmaction'

default_hooks = dict(  # besides mmengine's own
    logger=dict(type='LoggerHook', interval=20, ignore_last=False),
    # saves whole files and on SIGTERM, loads weights only
    checkpoint=dict(type='AtomicCheckpointHook', interval=1, max_keep_ckpts=3, save_last=True),
    sync_buffers=dict(type='SyncBuffersHook'),
    param_scheduler=dict(type='ParamSchedulerHook'),  # MMAction2's vis_scheduler.py reads it
    checks=dict(type='ChecksHook'),  # labels, batches, head and learning rate
    bad_videos=dict(type='BadVideosHook', max_share=0.05),
    finite_loss=dict(type='FiniteLossHook'),
    regularization=dict(type='RegularizationLossHook'),  # Figure 5
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
    # Log means over the window for training, but not of several validations (acc/top1)
    mean_pattern=r'.*(loss|time|data_time|grad_norm|accuracy|_acc|entropy).*',
)
vis_backends = [dict(type='LocalVisBackend')]
visualizer = dict(type='ActionVisualizer', vis_backends=vis_backends)

log_level = 'INFO'
load_from = None
resume = False
