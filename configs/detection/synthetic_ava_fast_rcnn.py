# A thin network on synthetic AVA, from frames and with given boxes; see docs/detection.md.
_base_ = [
    '../_base_/models/ava_fast_rcnn.py',
    '../_base_/datasets/synthetic_ava_frames.py',
    '../_base_/schedules/synthetic_ava_adamw.py',
    '../_base_/detection_runtime.py',
]
model = dict(
    backbone=dict(depth=18, width=0.125, init_cfg=None),
    roi_head=dict(bbox_head=dict(in_channels=64, num_classes=4, topk=1, dropout_ratio=0.0)),
)
