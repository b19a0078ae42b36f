# R3D-50 on AVA 2.1 from frames, CVRL's weights. Paper: 16.3 % mAP (Table 5).
_base_ = './ava21_frames_random.py'
model = dict(
    backbone=dict(
        init_cfg=dict(
            type='Pretrained',
            checkpoint='work_dirs/pretrain_k400/epoch_800.pth',
            prefix='backbone.',
        )
    )
)
