# ImageNet inflated. Paper: 53.5 % (Table 2).
_base_ = ['../linear/linear_k400.py', '../_base_/imagenet_pixels.py']
model = dict(
    backbone=dict(init_cfg=dict(checkpoint='checkpoints/r3d50_imagenet_inflated.pth')),
    data_preprocessor=_base_.imagenet_pixels,
)
