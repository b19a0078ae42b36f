# The encoder of pre-training with a classifier; all layers train.
_base_ = './cvrl_r3d50.py'
model = dict(
    type='Recognizer3D',
    backbone=dict(
        init_cfg=dict(
            type='Pretrained',
            # --cfg-options model.backbone.init_cfg.checkpoint=... names another one
            checkpoint='work_dirs/pretrain_k400/epoch_800.pth',
            prefix='backbone.',
        )
    ),
    cls_head=dict(
        _delete_=True,
        type='LinearProbeHead',
        num_classes=400,
        in_channels=2048,
        # Sec. 4.1 on supervised learning: dropout, no feature normalisation. The paper says
        # nothing about either for fine-tuning.
        l2_normalize=False,
        dropout_ratio=0.5,
        average_clips='prob',  # over the test views: the released code
    ),
)
