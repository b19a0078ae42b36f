# AVA 2.2 from the video files of the movies
_base_ = './ava22_frames.py'

read_clip = dict(type='ReadAVAClip', clip_len=32, frame_interval=2)
from_videos = dict(
    use_frames=False,
    timestamp_start=0,  # whole movies; 900 for files that were cut at this second
    data_prefix=dict(img='data/ava/videos'),
)
train_dataloader = dict(dataset=dict(**from_videos, pipeline=[read_clip, *_base_.train_views]))
val_dataloader = dict(dataset=dict(**from_videos, pipeline=[read_clip, *_base_.test_views]))
test_dataloader = val_dataloader
