data_root = 'data/kinetics400/'

# Each step has a name. A config that changes a step redefines it and lists the pipeline again
open_video = dict(type='VideoFileInit')
# Two clips of 16 frames, stride 2, at 25 frames per second (Sec. 4 and 4.1); intervals decrease
# linearly (Figure 3 a)
sample = dict(type='TemporalIntervalSample', clip_len=16, frame_interval=2, fps=25)
decode = dict(type='VideoFileDecode')
# Algorithm 1, with the strengths of jitter and blur of the released code. The paper does not state
# the distribution of the crop; this is MMAction2's, with the ranges of the released code
crop = dict(type='RandomResizedCrop', area_range=(0.3, 1.0), aspect_ratio_range=(0.5, 2.0))
resize = dict(type='Resize', scale=(224, 224), keep_ratio=False)
flip = dict(type='Flip', flip_ratio=0.5)
jitter = dict(
    type='ClipColorJitter',
    brightness=(0.2, 1.8),
    contrast=(0.2, 1.8),
    saturation=(0.2, 1.8),
    hue=(-0.2, 0.2),
    prob=0.8,
)
grayscale = dict(type='ClipGrayscale', prob=0.2)
blur = dict(type='ClipGaussianBlur', sigma=(0.1, 2.0), kernel_size=23)
augment = dict(
    type='ConsistentAugment',
    over='clip',
    transforms=[crop, resize, flip, jitter, grayscale, blur],
)
pack = [dict(type='FormatShape', input_format='NCTHW'), dict(type='PackActionInputs')]
train_pipeline = [open_video, sample, decode, augment, *pack]
train_dataloader = dict(
    batch_size=128,  # of 1024 videos on 8 ranks (Sec. 4.1)
    num_workers=12,
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
