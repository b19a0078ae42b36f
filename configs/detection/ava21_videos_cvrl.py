_base_ = './ava21_videos_random.py'
model = dict(
    backbone=dict(
        init_cfg=dict(
            type='Pretrained',
            checkpoint='work_dirs/pretrain_k400/epoch_800.pth',
            prefix='backbone.',
        )
    )
)
