# What the released code has as its example: Kinetics-600, 200 epochs.
_base_ = './pretrain_k400_released.py'
data_root = 'data/kinetics600/'
train_dataloader = dict(
    dataset=dict(
        ann_file=data_root + 'kinetics600_train_list_videos.txt',
        data_prefix=dict(video=data_root + 'videos_train'),
    )
)
train_cfg = dict(max_epochs=200)
