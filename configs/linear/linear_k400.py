# Linear evaluation on Kinetics-400. Paper: 66.1 % (Table 2).
_base_ = [
    '../_base_/models/linear_r3d50.py',
    '../_base_/datasets/kinetics400_clips.py',
    '../_base_/schedules/linear_sgd.py',
    '../_base_/default_runtime.py',
]
