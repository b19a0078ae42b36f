# R3D-50 on AVA 2.2 from the videos, inflated ImageNet weights. Paper: 14.0 % mAP (Table 5).
_base_ = ['./ava22_videos_cvrl.py', '../_base_/imagenet_pixels.py']
model = dict(
    backbone=dict(init_cfg=dict(checkpoint='checkpoints/r3d50_imagenet_inflated.pth')),
    data_preprocessor=_base_.imagenet_pixels,
)
