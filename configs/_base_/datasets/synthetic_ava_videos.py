# The same movies as video files that start at second 900
_base_ = './synthetic_ava_frames.py'

read_clip = dict(type='ReadAVAClip', clip_len=8, frame_interval=3)
from_videos = dict(
    use_frames=False,
    proposal_file=None,
    data_prefix=dict(img='data/synthetic_ava/videos'),
)
train_dataloader = dict(dataset=dict(**from_videos, pipeline=[read_clip, *_base_.train_views]))
val_dataloader = dict(dataset=dict(**from_videos, pipeline=[read_clip, *_base_.test_views]))
test_dataloader = val_dataloader
