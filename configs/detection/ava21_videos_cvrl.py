# R3D-50 on AVA 2.1 from the videos, weights of CVRL. Paper: 16.3 % mAP (Table 5).
_base_ = [
    '../_base_/models/ava_fast_rcnn.py',
    '../_base_/datasets/ava21_videos.py',
    '../_base_/schedules/ava_sgd_12e.py',
    '../_base_/detection_runtime.py',
]
