# Figure 4 on the generated videos: pre-training on half of the videos, as many steps.
_base_ = './cvrl_motion.py'
train_dataloader = dict(dataset=dict(ann_file=_base_.data_root + 'train_50pct.txt'))
