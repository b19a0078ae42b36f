# ImageNet inflated. Not in the paper.
_base_ = ['../finetune/finetune_hmdb51_split1.py', '../_base_/imagenet_pixels.py']
model = dict(
    backbone=dict(init_cfg=dict(checkpoint='checkpoints/r3d50_imagenet_inflated.pth')),
    data_preprocessor=_base_.imagenet_pixels,
)
