# Supervised from scratch on Kinetics-600. Paper: 79.4 % (Table 2).
_base_ = [
    '../_base_/models/recognizer_r3d50.py',
    '../_base_/datasets/kinetics600_clips.py',
    '../_base_/schedules/supervised_sgd.py',
    '../_base_/default_runtime.py',
]
# 128 videos per GPU fit into 80 GB (docs/speed.md)
model = dict(
    backbone=dict(init_cfg=None, recompute=dict(layer1='last')), cls_head=dict(num_classes=600)
)
