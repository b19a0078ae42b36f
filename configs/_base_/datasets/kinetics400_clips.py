data_root = 'data/kinetics400/'

# A clip of 32 frames, stride 2, everywhere (Sec. 4.1)
train_pipeline = [
    dict(type='DecordInit'),
    dict(type='SampleFrames', clip_len=32, frame_interval=2, num_clips=1),
    dict(type='SortedDecordDecode'),
    # Cropping, resizing and flipping alone (Sec. 4.1); the ranges are the released code's
    dict(type='RandomResizedCrop', area_range=(0.3, 1.0), aspect_ratio_range=(0.5, 2.0)),
    dict(type='Resize', scale=(224, 224), keep_ratio=False),
    dict(type='Flip', flip_ratio=0.5),
    dict(type='FormatShape', input_format='NCTHW'),
    dict(type='PackActionInputs'),
]
# While training: one clip and one crop in the middle
val_pipeline = [
    dict(type='DecordInit'),
    dict(type='SampleFrames', clip_len=32, frame_interval=2, num_clips=1, test_mode=True),
    dict(type='SortedDecordDecode'),
    dict(type='Resize', scale=(-1, 256)),
    dict(type='CenterCrop', crop_size=256),
    dict(type='FormatShape', input_format='NCTHW'),
    dict(type='PackActionInputs'),
]
# Testing: 10 clips x 3 crops of 256 (Sec. 4.1; sizes and clip starts of the released code)
test_pipeline = [
    dict(type='DecordInit'),
    dict(type='EvenClipSample', clip_len=32, frame_interval=2, num_clips=10),
    dict(type='SortedDecordDecode'),
    dict(type='Resize', scale=(-1, 256)),
    dict(type='ThreeCrop', crop_size=256),
    dict(type='FormatShape', input_format='NCTHW'),
    dict(type='PackActionInputs'),
]
# Retrieval and nearest neighbours: the mean over 10 clips, one crop in the middle
feature_pipeline = [
    dict(type='DecordInit'),
    dict(type='EvenClipSample', clip_len=32, frame_interval=2, num_clips=10),
    dict(type='SortedDecordDecode'),
    dict(type='Resize', scale=(-1, 256)),
    dict(type='CenterCrop', crop_size=256),
    dict(type='FormatShape', input_format='NCTHW'),
    dict(type='PackActionInputs'),
]
train_dataloader = dict(
    batch_size=128,  # of 1024 videos on 8 ranks (Sec. 4.1)
    num_workers=8,
    persistent_workers=True,
    drop_last=True,
    sampler=dict(type='DefaultSampler', shuffle=True),
    collate_fn=dict(type='pseudo_collate'),
    dataset=dict(
        type='VideoListDataset',
        ann_file=data_root + 'kinetics400_train_list_videos.txt',
        data_prefix=dict(video=data_root + 'videos_train'),
        pipeline=train_pipeline,
    ),
)
val_dataloader = dict(
    batch_size=16,
    num_workers=8,
    persistent_workers=True,
    sampler=dict(type='DefaultSampler', shuffle=False),
    collate_fn=dict(type='pseudo_collate'),
    dataset=dict(
        type='VideoListDataset',
        ann_file=data_root + 'kinetics400_val_list_videos.txt',
        data_prefix=dict(video=data_root + 'videos_val'),
        pipeline=val_pipeline,
        test_mode=True,
    ),
)
test_dataloader = dict(
    batch_size=1,  # of 30 views
    num_workers=8,
    persistent_workers=True,
    sampler=dict(type='DefaultSampler', shuffle=False),
    collate_fn=dict(type='pseudo_collate'),
    dataset=dict(
        type='VideoListDataset',
        ann_file=data_root + 'kinetics400_val_list_videos.txt',
        data_prefix=dict(video=data_root + 'videos_val'),
        pipeline=test_pipeline,
        test_mode=True,
    ),
)
val_evaluator = dict(type='AccMetric')
test_evaluator = dict(type='AccMetric')
