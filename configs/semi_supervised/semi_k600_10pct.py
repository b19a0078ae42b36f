# Fine-tuning on 10 % of the labels of Kinetics-600. Paper: 56.1 % (Table 10).
_base_ = './semi_k600_1pct.py'
ann_file = 'data/kinetics600/kinetics600_train_10pct_list_videos.txt'
train_dataloader = dict(dataset=dict(ann_file=ann_file))
train_cfg = dict(max_epochs=50)  # Sec. 4.1
