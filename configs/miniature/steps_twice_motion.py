# Table 8 on the generated videos: twice the steps and twice the warm-up.
_base_ = './cvrl_motion.py'
train_cfg = dict(max_iters=_base_.train_cfg.max_iters * 2)
param_scheduler = _base_.param_scheduler
param_scheduler[0].update(end=param_scheduler[0]['end'] * 2)
