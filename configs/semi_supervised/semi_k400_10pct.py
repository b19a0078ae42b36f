# Fine-tuning on 10 % of the labels of Kinetics-400. Paper: 58.1 % (Table 3).
_base_ = './semi_k400_1pct.py'
ann_file = 'data/kinetics400/kinetics400_train_10pct_list_videos.txt'
train_dataloader = dict(dataset=dict(ann_file=ann_file))
train_cfg = dict(max_epochs=50)  # Sec. 4.1
