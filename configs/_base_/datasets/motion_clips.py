# The set that tools/data/make_motion_videos.py writes: 64x64, 40 frames, labels 0 to 15
_base_ = './kinetics400_clips.py'
data_root = 'data/motion/'

train_pipeline = [
    dict(type='DecordInit'),
    dict(type='SampleFrames', clip_len=8, frame_interval=2, num_clips=1),
    dict(type='DecordDecode'),
    dict(type='RandomResizedCrop', area_range=(0.3, 1.0), aspect_ratio_range=(0.5, 2.0)),
    dict(type='Resize', scale=(32, 32), keep_ratio=False),
    dict(type='Flip', flip_ratio=0.5),
    dict(type='FormatShape', input_format='NCTHW'),
    dict(type='PackActionInputs'),
]
# Three clips of the whole picture, everywhere
test_pipeline = [
    dict(type='DecordInit'),
    dict(type='EvenClipSample', clip_len=8, frame_interval=2, num_clips=3),
    dict(type='SortedDecordDecode'),
    dict(type='Resize', scale=(32, 32), keep_ratio=False),
    dict(type='FormatShape', input_format='NCTHW'),
    dict(type='PackActionInputs'),
]
val_pipeline = feature_pipeline = test_pipeline
train_dataloader = dict(
    batch_size=64,
    num_workers=2,
    dataset=dict(
        ann_file=data_root + 'train.txt',
        data_prefix=dict(video=data_root),
        pipeline=train_pipeline,
    ),
)
val_dataloader = dict(
    batch_size=64,
    num_workers=2,
    dataset=dict(
        ann_file=data_root + 'test.txt',
        data_prefix=dict(video=data_root),
        pipeline=test_pipeline,
    ),
)
test_dataloader = val_dataloader
