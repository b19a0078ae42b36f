# default_runtime.py in steps instead of epochs, which take only seconds on a small data set
_base_ = './default_runtime.py'
default_hooks = dict(
    logger=dict(log_metric_by_epoch=False, interval=10),
    checkpoint=dict(by_epoch=False, interval=100, max_keep_ckpts=1),
)
log_processor = dict(by_epoch=False)
