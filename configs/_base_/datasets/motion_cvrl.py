# The set that tools/data/make_motion_videos.py writes: 64x64, 40 frames, labels 0 to 15
_base_ = './kinetics_cvrl.py'
data_root = 'data/motion/'

sample = dict(type='TemporalIntervalSample', clip_len=8, frame_interval=2)
# Algorithm 1; colours change half as much as on Kinetics, and the blur fits the smaller frames
resize = dict(type='Resize', scale=(32, 32), keep_ratio=False)
jitter = dict(
    type='ClipColorJitter',
    brightness=(0.6, 1.4),
    contrast=(0.6, 1.4),
    saturation=(0.6, 1.4),
    hue=(-0.1, 0.1),
    prob=0.8,
)
blur = dict(type='ClipGaussianBlur', sigma=(0.1, 1.0), kernel_size=5, prob=0.5)
augment = dict(
    type='ConsistentAugment',
    over='clip',
    transforms=[_base_.crop, resize, _base_.flip, jitter, _base_.grayscale, blur],
)
train_pipeline = [_base_.open_video, sample, _base_.decode, augment, *_base_.pack]
train_dataloader = dict(
    batch_size=64,
    num_workers=2,
    sampler=dict(type='InfiniteSampler'),
    dataset=dict(
        ann_file=data_root + 'train.txt',
        data_prefix=dict(video=data_root),
        pipeline=train_pipeline,
    ),
)

# Features of the frozen backbone: three clips of every video, in the order of the list
features_pipeline = [
    _base_.open_video,
    dict(type='SampleFrames', clip_len=8, frame_interval=2, num_clips=3, test_mode=True),
    _base_.decode,
    resize,
    *_base_.pack,
]
features_dataloader = dict(
    batch_size=32,
    num_workers=2,
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(
        type='VideoListDataset',
        ann_file=data_root + 'test.txt',
        data_prefix=dict(video=data_root),
        pipeline=features_pipeline,
    ),
)
