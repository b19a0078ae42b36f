# Fine-tuning on 10 % of the labels of the generated videos, 6 per class, 32 per step.
_base_ = './finetune_motion.py'
train_dataloader = dict(batch_size=32, dataset=dict(ann_file='data/motion/train_10pct.txt'))
optim_wrapper = dict(optimizer=dict(lr=0.04))
auto_scale_lr = dict(base_batch_size=32)
train_cfg = dict(max_epochs=50)
param_scheduler = [dict(type='CosineAnnealingLR', eta_min=0.0, convert_to_iter_based=True)]
