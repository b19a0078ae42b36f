# Trained from scratch; not in the paper.
_base_ = '../finetune/finetune_hmdb51_split1.py'
model = dict(backbone=dict(init_cfg=None))
