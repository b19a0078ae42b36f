_base_ = './ava22_frames_random.py'
model = dict(
    backbone=dict(
        init_cfg=dict(
            type='Pretrained',
            checkpoint='checkpoints/r3d50_imagenet_inflated.pth',
            prefix='backbone.',
        )
    )
)
