# R3D-50 on AVA 2.1 from frames, inflated ImageNet weights. Paper: 14.0 % mAP (Table 5).
_base_ = ['./ava21_frames_random.py', '../_base_/imagenet_pixels.py']
model = dict(
    backbone=dict(
        init_cfg=dict(
            type='Pretrained',
            checkpoint='checkpoints/r3d50_imagenet_inflated.pth',
            prefix='backbone.',
        )
    ),
    data_preprocessor=_base_.imagenet_pixels,
)
