# Fine-tuning on 1 % of the labels of Kinetics-400. Paper: 35.1 % (Table 3).
_base_ = [
    '../_base_/models/recognizer_r3d50.py',
    '../_base_/datasets/kinetics400_clips.py',
    '../_base_/schedules/semi_sgd.py',
    '../_base_/default_runtime.py',
]
# 128 videos per GPU fit into 80 GB (docs/speed.md)
model = dict(backbone=dict(recompute=dict(layer1='last')))
ann_file = 'data/kinetics400/kinetics400_train_1pct_list_videos.txt'
# 1 % are 2.3 batches of 1024: without the last one, an epoch would miss 13 % of the videos
train_dataloader = dict(drop_last=False, dataset=dict(ann_file=ann_file))
