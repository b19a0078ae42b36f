_base_ = './pretrain_simclr_k400.py'
data_root = 'data/kinetics600/'
train_dataloader = dict(
    dataset=dict(
        ann_file=data_root + 'kinetics600_train_list_videos.txt',
        data_prefix=dict(video=data_root + 'videos_train'),
    )
)
