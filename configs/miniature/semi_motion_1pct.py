# Fine-tuning on 1 % of the labels of the generated videos, one per class, one step per epoch.
_base_ = './semi_motion_10pct.py'
train_dataloader = dict(batch_size=16, dataset=dict(ann_file='data/motion/train_1pct.txt'))
optim_wrapper = dict(optimizer=dict(lr=0.02))
auto_scale_lr = dict(base_batch_size=16)
train_cfg = dict(max_epochs=100)
