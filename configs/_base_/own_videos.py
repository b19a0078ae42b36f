# What all configs of `cvrl pretrain` have in common; they set what depends on videos and machine
_base_ = [
    './models/cvrl_r3d50.py',
    './datasets/kinetics_cvrl.py',
    './schedules/miniature_adamw.py',
    './miniature_runtime.py',
]
# Half the strength of Kinetics, which is for long trainings
jitter = dict(
    type='ClipColorJitter',
    brightness=(0.6, 1.4),
    contrast=(0.6, 1.4),
    saturation=(0.6, 1.4),
    hue=(-0.1, 0.1),
    prob=0.8,
)
light = dict(  # for videos without colours
    type='ClipColorJitter',
    brightness=(0.6, 1.4),
    contrast=(0.6, 1.4),
    saturation=(1.0, 1.0),
    hue=(0.0, 0.0),
    prob=0.8,
)
half_blur = dict(type='ClipGaussianBlur', prob=0.5)  # sigma and kernel_size go with the size
default_hooks = dict(preemption=dict(continue_with='the same command'))
train_dataloader = dict(sampler=dict(type='InfiniteSampler', shuffle=True))

# The watched videos, measured without training on them: two clips per video and their middle
two_clips = dict(type='EvenClipSample', num_clips=2)
watched_loader = dict(
    batch_size=8,
    sampler=dict(type='DefaultSampler', shuffle=False),
    collate_fn=dict(type='pseudo_collate'),
)
watched_dataset = dict(type='VideoListDataset', test_mode=True)
watch = dict(type='RepresentationHook', by_epoch=False)

# Linear warm-up and a cosine to 0
warmup = dict(type='LinearLR', start_factor=0.01, by_epoch=False)
cosine = dict(type='CosineAnnealingLR', by_epoch=False, eta_min=0.0)
