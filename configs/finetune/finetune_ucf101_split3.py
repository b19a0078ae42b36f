# Fine-tuning on UCF-101. Paper: 92.2 % over the three splits (Table 4).
_base_ = [
    '../_base_/models/recognizer_r3d50.py',
    '../_base_/datasets/ucf101_split3.py',
    '../_base_/schedules/finetune_sgd.py',
    '../_base_/default_runtime.py',
]
model = dict(cls_head=dict(num_classes=101))
