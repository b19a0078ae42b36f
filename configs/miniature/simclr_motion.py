# SimCLR on frames of the generated videos: two views of one frame, kernels one frame long; the
# network is inflated before it sees clips.
_base_ = './cvrl_motion.py'
model = dict(backbone=dict(conv1_kernel=(1, 5, 5), conv1_stride_t=1, inflate=(0, 0, 0, 0)))
sample = _base_.sample
sample.update(clip_len=1, frame_interval=1, density='none')
train_pipeline = [_base_.open_video, sample, _base_.decode, _base_.augment, *_base_.pack]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
