_base_ = './ucf101_split1.py'
train_dataloader = dict(dataset=dict(ann_file='data/ucf101/ucf101_train_split_3_videos.txt'))
val_dataloader = dict(dataset=dict(ann_file='data/ucf101/ucf101_val_split_3_videos.txt'))
test_dataloader = dict(dataset=dict(ann_file='data/ucf101/ucf101_val_split_3_videos.txt'))
