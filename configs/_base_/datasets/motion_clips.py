# The set that tools/data/make_motion_videos.py writes: 64x64, 40 frames, labels 0 to 15
_base_ = './kinetics400_clips.py'
data_root = 'data/motion/'

sample_train = dict(type='SampleFrames', clip_len=8, frame_interval=2, num_clips=1)
# Three clips of the whole frame for validation, testing and features
sample_test = dict(type='EvenClipSample', clip_len=8, frame_interval=2, num_clips=3)
resize = dict(type='Resize', scale=(32, 32), keep_ratio=False)
train_pipeline = [
    _base_.open_video,
    sample_train,
    _base_.decode,
    _base_.crop,
    resize,
    _base_.flip,
    *_base_.pack,
]
test_pipeline = [_base_.open_video, sample_test, _base_.decode, resize, *_base_.pack]
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
