# Fast R-CNN with a region proposal network that finds the people
_base_ = './ava_fast_rcnn.py'
model = dict(
    type='ActionFasterRCNN',
    # Anchors of 32 to 256 pixels on the features of stride 16
    rpn_head=dict(
        type='RPNHead',
        in_channels=2048,
        feat_channels=512,
        anchor_generator=dict(
            type='AnchorGenerator', scales=[2, 4, 8, 16], ratios=[0.5, 1.0, 2.0], strides=[16]
        ),
        bbox_coder=dict(type='DeltaXYWHBBoxCoder'),
        loss_cls=dict(type='CrossEntropyLoss', use_sigmoid=True, loss_weight=1.0),
        loss_bbox=dict(type='L1Loss', loss_weight=1.0),
    ),
    train_cfg=dict(
        # Faster R-CNN, Ren et al., Sec. 3.1.2
        rpn=dict(
            assigner=dict(
                type='MaxIoUAssigner',
                pos_iou_thr=0.7,
                neg_iou_thr=0.3,
                min_pos_iou=0.3,
                ignore_iof_thr=-1,
            ),
            sampler=dict(
                type='RandomSampler',
                num=256,
                pos_fraction=0.5,
                neg_pos_ub=-1,
                add_gt_as_proposals=False,
            ),
            allowed_border=-1,
            pos_weight=-1,
        ),
        rpn_proposal=dict(nms_pre=1000, max_per_img=100, nms=dict(type='nms', iou_threshold=0.7)),
        # The IoU of the evaluation: this network finds the boxes of training and testing
        # Other proposals than people are not trained as people without an action
        rcnn=dict(
            assigner=dict(pos_iou_thr=0.5, neg_iou_thr=0.5, min_pos_iou=0.5),
            sampler=dict(neg_pos_ub=0),
        ),
    ),
    # No second stage refines the boxes or removes duplicates
    test_cfg=dict(rpn=dict(nms_pre=1000, max_per_img=20, nms=dict(type='nms', iou_threshold=0.5))),
)
