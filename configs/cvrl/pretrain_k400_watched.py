# K400 pre-training that reports, every 10 epochs, k-NN accuracy, retrieval and signs of collapse
# on 5 % of the validation videos: tools/data/make_subset.py writes their list.
_base_ = './pretrain_k400.py'
sample_watched = dict(type='EvenClipSample', clip_len=16, frame_interval=2, num_clips=2, fps=25)
watched = dict(
    type='VideoListDataset',
    ann_file='data/kinetics400/kinetics400_val_5pct_list_videos.txt',
    data_prefix=dict(video='data/kinetics400/videos_val'),
    test_mode=True,
    pipeline=[
        _base_.open_video,
        sample_watched,
        _base_.decode,
        dict(type='Resize', scale=(-1, 256)),
        dict(type='CenterCrop', crop_size=224),
        *_base_.pack,
    ],
)
dataloader = dict(batch_size=16, num_workers=8, dataset=watched)
custom_hooks = [dict(type='KNNMonitorHook', dataloader=dataloader, interval=10)]
