# Figure 4 on the generated videos: pre-training on a quarter of the videos, as many steps.
_base_ = './cvrl_motion.py'
train_dataloader = dict(dataset=dict(ann_file=_base_.data_root + 'train_25pct.txt'))
