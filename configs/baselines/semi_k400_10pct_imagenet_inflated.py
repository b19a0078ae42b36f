# ImageNet inflated. Paper: 49.1 % (Table 3).
_base_ = '../semi_supervised/semi_k400_10pct.py'
model = dict(
    backbone=dict(init_cfg=dict(checkpoint='checkpoints/r3d50_imagenet_inflated.pth')),
    # What torchvision's ResNet-50 was trained on
    data_preprocessor=dict(mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375]),
)
