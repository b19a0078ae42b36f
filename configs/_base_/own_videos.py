# What the configs of `cvrl pretrain` have in common; they set what depends on the videos.
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
train_dataloader = dict(sampler=dict(type='InfiniteSampler', shuffle=True))
