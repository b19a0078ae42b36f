# Base of all configs of `cvrl pretrain`, which set what depends on the videos and the machine
_base_ = [
    './models/cvrl_r3d50.py',
    './datasets/kinetics_cvrl.py',
    './schedules/miniature_adamw.py',
    './miniature_runtime.py',
]
# Half the strength of the configs for Kinetics, which are for long trainings. The configs set the
# ranges of brightness and contrast
jitter = dict(type='ClipColorJitter', saturation=(0.6, 1.4), hue=(-0.1, 0.1), prob=0.8)
light_jitter = dict(jitter, saturation=(1.0, 1.0), hue=(0.0, 0.0))  # for videos without colours
half_blur = dict(type='ClipGaussianBlur', prob=0.5)  # sigma and kernel_size depend on the size

# The watched videos, which are not trained on: two clips per video, with a centre crop
two_clips = dict(type='EvenClipSample', num_clips=2)
watched_loader = dict(batch_size=8)
watched_dataset = dict(type='VideoListDataset', test_mode=True, max_missing=0.5)
watch = dict(type='KNNMonitorHook', by_epoch=False)

# Linear warm-up and a cosine to 0
warmup = dict(type='LinearLR', start_factor=0.01, by_epoch=False)
cosine = dict(type='CosineAnnealingLR', by_epoch=False, eta_min=0.0)
