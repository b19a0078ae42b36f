_base_ = './ava21_frames_random.py'
model = dict(
    backbone=dict(
        init_cfg=dict(
            type='Pretrained',
            checkpoint='checkpoints/r3d50_simclr_inflated.pth',
            prefix='backbone.',
        )
    )
)
