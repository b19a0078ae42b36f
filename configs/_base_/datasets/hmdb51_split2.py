_base_ = './hmdb51_split1.py'
train_dataloader = dict(dataset=dict(ann_file='data/hmdb51/hmdb51_train_split_2_videos.txt'))
val_dataloader = dict(dataset=dict(ann_file='data/hmdb51/hmdb51_val_split_2_videos.txt'))
test_dataloader = dict(dataset=dict(ann_file='data/hmdb51/hmdb51_val_split_2_videos.txt'))
