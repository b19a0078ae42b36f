_base_ = './kinetics400_clips.py'
data_root = 'data/kinetics600/'
train_dataloader = dict(
    dataset=dict(
        ann_file=data_root + 'kinetics600_train_list_videos.txt',
        data_prefix=dict(video=data_root + 'videos_train'),
    )
)
val_data = dict(
    ann_file=data_root + 'kinetics600_val_list_videos.txt',
    data_prefix=dict(video=data_root + 'videos_val'),
)
val_dataloader = dict(dataset=val_data)
test_dataloader = dict(dataset=val_data)
