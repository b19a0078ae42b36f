# A thin network on synthetic AVA, from the videos alone; see docs/detection.md.
_base_ = [
    '../_base_/models/ava_faster_rcnn.py',
    '../_base_/datasets/synthetic_ava_videos.py',
    '../_base_/schedules/synthetic_ava_adamw.py',
    '../_base_/detection_runtime.py',
]
model = dict(
    backbone=dict(depth=18, width=0.125, init_cfg=None),
    rpn_head=dict(
        in_channels=64,
        feat_channels=64,
        anchor_generator=dict(scales=[1.0, 1.4], ratios=[1.0, 1.5]),
        loss_bbox=dict(loss_weight=10.0),  # 64 anchors a picture instead of thousands
    ),
    roi_head=dict(bbox_head=dict(in_channels=64, num_classes=4, topk=1, dropout_ratio=0.0)),
)
