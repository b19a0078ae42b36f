# R3D-50 on AVA 2.2 from the videos, inflated SimCLR weights. Paper: 14.2 % mAP (Table 5).
_base_ = './ava22_videos_cvrl.py'
model = dict(backbone=dict(init_cfg=dict(checkpoint='checkpoints/r3d50_simclr_inflated.pth')))
