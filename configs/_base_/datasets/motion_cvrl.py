# The set that tools/data/make_motion_videos.py writes: 64x64, 40 frames, labels 0 to 15
data_root = 'data/motion/'

open_video = dict(type='VideoFileInit')
sample = dict(type='TemporalIntervalSample', clip_len=8, frame_interval=2)
decode = dict(type='VideoFileDecode')
# Algorithm 1; colours change half as much as on Kinetics, the blur is that of smaller frames
crop = dict(type='RandomResizedCrop', area_range=(0.3, 1.0), aspect_ratio_range=(0.5, 2.0))
resize = dict(type='Resize', scale=(32, 32), keep_ratio=False)
flip = dict(type='Flip', flip_ratio=0.5)
jitter = dict(
    type='ClipColorJitter',
    brightness=(0.6, 1.4),
    contrast=(0.6, 1.4),
    saturation=(0.6, 1.4),
    hue=(-0.1, 0.1),
    prob=0.8,
)
grayscale = dict(type='ClipGrayscale', prob=0.2)
blur = dict(type='ClipGaussianBlur', sigma=(0.1, 1.0), kernel_size=5, prob=0.5)
augment = dict(
    type='ConsistentAugment',
    over='clip',
    transforms=[crop, resize, flip, jitter, grayscale, blur],
)
pack = [dict(type='FormatShape', input_format='NCTHW'), dict(type='PackActionInputs')]
train_pipeline = [open_video, sample, decode, augment, *pack]
train_dataloader = dict(
    batch_size=64,
    num_workers=2,
    persistent_workers=True,
    drop_last=True,
    sampler=dict(type='InfiniteSampler', shuffle=True),
    collate_fn=dict(type='stack_collate'),  # one tensor per batch, in shared memory
    dataset=dict(
        type='VideoListDataset',
        ann_file=data_root + 'train.txt',
        data_prefix=dict(video=data_root),
        pipeline=train_pipeline,
    ),
)

# Features of the frozen backbone: three clips of every video, in the order of the list
features_pipeline = [
    open_video,
    dict(type='SampleFrames', clip_len=8, frame_interval=2, num_clips=3, test_mode=True),
    decode,
    resize,
    *pack,
]
features_dataloader = dict(
    batch_size=32,
    num_workers=2,
    sampler=dict(type='DefaultSampler', shuffle=False),
    collate_fn=dict(type='pseudo_collate'),
    dataset=dict(
        type='VideoListDataset',
        ann_file=data_root + 'test.txt',
        data_prefix=dict(video=data_root),
        pipeline=features_pipeline,
    ),
)
