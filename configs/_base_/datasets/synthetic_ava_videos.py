# The same movies as video files that start at second 900
_base_ = './synthetic_ava_frames.py'

clip = dict(type='ReadAVAClip', clip_len=8, frame_interval=3)
pack = [
    dict(type='FormatShape', input_format='NCTHW', collapse=True),
    dict(type='PackActionInputs'),
]
train_views = [dict(type='Flip', flip_ratio=0.5), *pack]
test_views = [dict(type='Resize', scale=(-1, 64)), *pack]

from_videos = dict(
    use_frames=False,
    proposal_file=None,
    data_prefix=dict(img='data/synthetic_ava/videos'),
)
train_dataloader = dict(dataset=dict(**from_videos, pipeline=[clip, *train_views]))
val_dataloader = dict(dataset=dict(**from_videos, pipeline=[clip, *test_views]))
test_dataloader = val_dataloader
