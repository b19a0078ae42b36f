# Fine-tuning on HMDB-51. Paper: 66.7 % over the three splits (Table 4).
_base_ = [
    '../_base_/models/recognizer_r3d50.py',
    '../_base_/datasets/hmdb51_split2.py',
    '../_base_/schedules/finetune_sgd.py',
    '../_base_/default_runtime.py',
]
model = dict(cls_head=dict(num_classes=51))
