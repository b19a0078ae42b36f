data_root = 'data/kinetics400/'

# Each step has a name. A config that changes a step redefines it and lists the pipeline again
open_video = dict(type='VideoFileInit')
decode = dict(type='VideoFileDecode')
# Clips of 32 frames, stride 2 (Sec. 4.1): one at random for training, one in the middle for the
# validation during training, ten for testing; random and test clips start as in the released code,
# at the paper's 25 frames per second
sample_train = dict(type='RandomClipSample', clip_len=32, frame_interval=2, fps=25)
sample_val = dict(type='SampleFrames', clip_len=32, frame_interval=2, num_clips=1, test_mode=True)
sample_test = dict(type='EvenClipSample', clip_len=32, frame_interval=2, num_clips=10, fps=25)
# Training: crop, resize and flip only (Sec. 4.1), with the ranges of the released code
crop = dict(type='RandomResizedCrop', area_range=(0.3, 1.0), aspect_ratio_range=(0.5, 2.0))
resize = dict(type='Resize', scale=(224, 224), keep_ratio=False)
flip = dict(type='Flip', flip_ratio=0.5)
# Testing: three crops of 256 (Sec. 4.1; sizes of the released code)
short_side = dict(type='Resize', scale=(-1, 256))
center_crop = dict(type='CenterCrop', crop_size=256)
three_crop = dict(type='ThreeCrop', crop_size=256)
pack = [dict(type='FormatShape', input_format='NCTHW'), dict(type='PackActionInputs')]

train_pipeline = [open_video, sample_train, decode, crop, resize, flip, *pack]
val_pipeline = [open_video, sample_val, decode, short_side, center_crop, *pack]
test_pipeline = [open_video, sample_test, decode, short_side, three_crop, *pack]
# Retrieval and nearest neighbours: the mean over 10 clips, one center crop
feature_pipeline = [open_video, sample_test, decode, short_side, center_crop, *pack]
train_dataloader = dict(
    batch_size=128,  # of 1024 videos on 8 ranks (Sec. 4.1)
    num_workers=8,
    timeout=500,  # seconds per batch, below the one of dist_cfg
    drop_last=True,
    sampler=dict(type='DefaultSampler', shuffle=True),
    collate_fn=dict(type='stack_collate'),  # one tensor per batch, in shared memory
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
