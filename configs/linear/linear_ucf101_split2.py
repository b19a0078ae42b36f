# Linear evaluation on UCF-101. Paper: 89.2 % over the three splits (Table 4).
_base_ = [
    '../_base_/models/linear_r3d50.py',
    '../_base_/datasets/ucf101_split2.py',
    '../_base_/schedules/linear_ucf101_sgd.py',
    '../_base_/default_runtime.py',
]
model = dict(cls_head=dict(num_classes=101))
