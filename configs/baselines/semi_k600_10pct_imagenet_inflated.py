# ImageNet inflated. Paper: 48.3 % (Table 10).
_base_ = ['../semi_supervised/semi_k600_10pct.py', '../_base_/imagenet_pixels.py']
model = dict(
    backbone=dict(init_cfg=dict(checkpoint='checkpoints/r3d50_imagenet_inflated.pth')),
    data_preprocessor=_base_.imagenet_pixels,
)
