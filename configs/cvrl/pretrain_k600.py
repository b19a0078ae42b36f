# CVRL on Kinetics-600: R3D-50, 800 epochs. Linear evaluation in the paper: 70.4 % (Table 2).
_base_ = './pretrain_k400.py'
data_root = 'data/kinetics600/'
train_dataloader = dict(
    dataset=dict(
        ann_file=data_root + 'kinetics600_train_list_videos.txt',
        data_prefix=dict(video=data_root + 'videos_train'),
    )
)
