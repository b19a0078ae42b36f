# Fine-tuning on 1 % of the labels of Kinetics-600. Paper: 36.7 % (Table 10).
_base_ = [
    '../_base_/models/recognizer_r3d50.py',
    '../_base_/datasets/kinetics600_clips.py',
    '../_base_/schedules/semi_sgd.py',
    '../_base_/default_runtime.py',
]
model = dict(
    backbone=dict(
        init_cfg=dict(checkpoint='work_dirs/pretrain_k600/epoch_800.pth'),
        recompute=dict(layer1='last'),  # 128 videos per GPU fit into 80 GB (docs/speed.md)
    ),
    cls_head=dict(num_classes=600),
)
ann_file = 'data/kinetics600/kinetics600_train_1pct_list_videos.txt'
# 1 % are 3.6 batches of 1024: without the last one, an epoch would miss 16 % of the videos
train_dataloader = dict(drop_last=False, dataset=dict(ann_file=ann_file))
