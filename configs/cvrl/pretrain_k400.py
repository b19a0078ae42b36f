# CVRL on Kinetics-400: R3D-50, 800 epochs. Linear evaluation in the paper: 66.1 % (Table 2).
_base_ = [
    '../_base_/models/cvrl_r3d50.py',
    '../_base_/datasets/kinetics_cvrl.py',
    '../_base_/schedules/cvrl_sgd.py',
    '../_base_/default_runtime.py',
]
# 128 videos per GPU fit into 80 GB (docs/speed.md)
model = dict(backbone=dict(recompute=dict(layer1='last')))
