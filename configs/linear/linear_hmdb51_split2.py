# Linear evaluation on HMDB-51. Paper: 57.3 % over the three splits (Table 4).
_base_ = [
    '../_base_/models/linear_r3d50.py',
    '../_base_/datasets/hmdb51_split2.py',
    '../_base_/schedules/linear_hmdb51_sgd.py',
    '../_base_/default_runtime.py',
]
model = dict(cls_head=dict(num_classes=51))
