# Linear evaluation on Kinetics-600. Paper: 70.4 % (Table 2).
_base_ = [
    '../_base_/models/linear_r3d50.py',
    '../_base_/datasets/kinetics600_clips.py',
    '../_base_/schedules/linear_sgd.py',
    '../_base_/default_runtime.py',
]
model = dict(
    backbone=dict(init_cfg=dict(checkpoint='work_dirs/pretrain_k600/epoch_800.pth')),
    cls_head=dict(num_classes=600),
)
