_base_ = './recognizer_r3d50.py'
model = dict(
    backbone=dict(
        depth=152,
        width=2,
        init_cfg=dict(checkpoint='work_dirs/pretrain_k600_r3d152_2x/epoch_800.pth'),
    ),
    cls_head=dict(in_channels=4096),
)
