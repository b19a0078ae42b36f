_base_ = './kinetics400_clips.py'
data_root = 'data/hmdb51/'
train_dataloader = dict(
    batch_size=16,  # of 128 videos on 8 ranks (Sec. 4.1)
    dataset=dict(
        ann_file=data_root + 'hmdb51_train_split_1_videos.txt',
        data_prefix=dict(video=data_root + 'videos'),
    ),
)
val_data = dict(
    ann_file=data_root + 'hmdb51_val_split_1_videos.txt',
    data_prefix=dict(video=data_root + 'videos'),
)
val_dataloader = dict(dataset=val_data)
test_dataloader = dict(dataset=val_data)
