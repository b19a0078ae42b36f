# Fast R-CNN on person boxes from a file. "SlowFast" marks what CVRL takes from there (Sec. 4.1):
# Feichtenhofer et al., ICCV 2019, Sec. 5, and the released configs of its authors
model = dict(
    type='FastRCNN',
    _scope_='mmdet',
    backbone=dict(
        type='mmaction.R3DSlow',
        depth=50,
        # Stage 5 keeps the resolution of stage 4; dilation keeps its receptive field (SlowFast)
        spatial_strides=(1, 2, 2, 1),
        dilations=(1, 1, 1, 2),
        init_cfg=dict(
            type='Pretrained',
            checkpoint='work_dirs/pretrain_k400/epoch_800.pth',
            prefix='backbone.',
        ),
    ),
    roi_head=dict(
        type='AVARoIHead',
        # RoIAlign of the mean over time equals the mean over time of a 3D RoIAlign
        bbox_roi_extractor=dict(
            type='SingleRoIExtractor3D',
            roi_layer_type='RoIAlign',
            output_size=7,
            featmap_stride=16,
            with_temporal_pool=True,
        ),
        bbox_head=dict(
            type='AllBoxesHeadAVA',  # detected people without an action train as such (SlowFast)
            in_channels=2048,
            num_classes=81,
            spatial_pool_type='max',
            dropout_ratio=0.5,  # SlowFast, which drops features after pooling
            dropout_before_pool=False,
        ),
    ),
    # Frames in [0, 1], as in pre-training
    data_preprocessor=dict(
        type='mmaction.ActionDataPreprocessor',
        mean=[0.0, 0.0, 0.0],
        std=[255.0, 255.0, 255.0],
        format_shape='NCTHW',
    ),
    train_cfg=dict(
        rcnn=dict(
            # From an IoU of 0.9, a detected box takes the actions of the annotated box (SlowFast)
            assigner=dict(
                type='MaxIoUAssignerAVA', pos_iou_thr=0.9, neg_iou_thr=0.9, min_pos_iou=0.9
            ),
            sampler=dict(
                type='RandomSampler',
                num=32,
                pos_fraction=1,
                neg_pos_ub=-1,
                add_gt_as_proposals=True,
            ),
            pos_weight=1.0,
        )
    ),
    test_cfg=dict(rcnn=None),
)
