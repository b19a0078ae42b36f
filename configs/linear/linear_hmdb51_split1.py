# Linear evaluation on HMDB-51. Paper: 58.3 % on split 1 (Table 4).
_base_ = [
    '../_base_/models/linear_r3d50.py',
    '../_base_/datasets/hmdb51_split1.py',
    '../_base_/schedules/linear_hmdb51_sgd.py',
    '../_base_/default_runtime.py',
]
model = dict(cls_head=dict(num_classes=51))
