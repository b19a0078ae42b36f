# ImageNet inflated. Paper: 16.0 % (Table 3).
_base_ = ['../semi_supervised/semi_k400_1pct.py', '../_base_/imagenet_pixels.py']
model = dict(
    backbone=dict(init_cfg=dict(checkpoint='checkpoints/r3d50_imagenet_inflated.pth')),
    data_preprocessor=_base_.imagenet_pixels,
)
