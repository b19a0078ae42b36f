_base_ = './ava22_frames_random.py'
model = dict(
    backbone=dict(
        init_cfg=dict(
            type='Pretrained',
            checkpoint='work_dirs/supervised_k400/epoch_200.pth',
            prefix='backbone.',
        )
    )
)
