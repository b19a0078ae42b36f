# CVRL on generated motion videos, minutes on two CPU cores; tools/quickstart.sh runs it.
_base_ = [
    '../_base_/models/cvrl_r3d50.py',
    '../_base_/models/miniature_r3d.py',
    '../_base_/datasets/motion_cvrl.py',
    '../_base_/schedules/miniature_adamw.py',
    '../_base_/miniature_runtime.py',
]
model = dict(
    backbone=_base_.small_backbone,
    cls_head=dict(in_channels=128, hidden_channels=128, out_channels=64),
)
