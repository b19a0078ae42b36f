# R3D-50 on AVA 2.2 from the videos, random weights. Paper: 6.9 % mAP (Table 5).
_base_ = './ava22_videos_cvrl.py'
model = dict(backbone=dict(init_cfg=None))
