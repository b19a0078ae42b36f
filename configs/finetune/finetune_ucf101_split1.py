# Fine-tuning on UCF-101. Paper: 92.9 % on split 1 (Table 4).
_base_ = [
    '../_base_/models/recognizer_r3d50.py',
    '../_base_/datasets/ucf101_split1.py',
    '../_base_/schedules/finetune_sgd.py',
    '../_base_/default_runtime.py',
]
model = dict(cls_head=dict(num_classes=101))
