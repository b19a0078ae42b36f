# AVA 2.2 straight from the movies' video files
_base_ = './ava22_frames.py'

clip = dict(type='ReadAVAClip', clip_len=32, frame_interval=2)
pack = [
    dict(type='FormatShape', input_format='NCTHW', collapse=True),
    dict(type='PackActionInputs'),
]
# SlowFast: short side 256 to 320, crop 224, flip; tested whole, short side 256
train_views = [
    dict(type='RandomRescale', scale_range=(256, 320)),
    dict(type='RandomCrop', size=224),
    dict(type='KeepVisibleBoxes'),
    dict(type='Flip', flip_ratio=0.5),
    *pack,
]
test_views = [dict(type='Resize', scale=(-1, 256)), *pack]

from_videos = dict(
    use_frames=False,
    timestamp_start=0,  # files hold whole movies; 900 for files cut from there on
    data_prefix=dict(img='data/ava/videos'),
)
train_dataloader = dict(dataset=dict(**from_videos, pipeline=[clip, *train_views]))
val_dataloader = dict(dataset=dict(**from_videos, pipeline=[clip, *test_views]))
test_dataloader = val_dataloader
