# R3D-50 on AVA 2.2 from the videos, supervised weights. Paper: 19.1 % mAP (Table 5).
_base_ = './ava22_videos_cvrl.py'
model = dict(backbone=dict(init_cfg=dict(checkpoint='work_dirs/supervised_k400/epoch_200.pth')))
