# SimCLR inflated. Not in the paper.
_base_ = '../finetune/finetune_ucf101_split1.py'
model = dict(backbone=dict(init_cfg=dict(checkpoint='checkpoints/simclr_k400_inflated.pth')))
