# Table 7 on the generated videos: the same number of videos; the learning rate scales linearly.
_base_ = './cvrl_motion.py'
train_dataloader = dict(batch_size=32)
optim_wrapper = dict(optimizer=dict(lr=_base_.optim_wrapper.optimizer.lr / 2))
train_cfg = dict(max_iters=_base_.train_cfg.max_iters * 2)
param_scheduler = _base_.param_scheduler
param_scheduler[0].update(end=param_scheduler[0]['end'] * 2)
