# SimCLR inflated. Not in the paper.
_base_ = '../finetune/finetune_hmdb51_split1.py'
model = dict(backbone=dict(init_cfg=dict(checkpoint='checkpoints/r3d50_simclr_inflated.pth')))
