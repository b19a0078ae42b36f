# SimCLR on frames of Kinetics-400 (Sec. 4.2): the same recipe with two views of one frame. All
# kernels are one frame long, so that this R3D-50 is a ResNet-50; inflate it afterwards:
#   cvrl convert inflate RUN.pth checkpoints/r3d50_simclr_inflated.pth
_base_ = '../cvrl/pretrain_k400.py'
model = dict(
    backbone=dict(
        conv1_kernel=(1, 7, 7),
        conv1_stride_t=1,
        inflate=(0, 0, 0, 0),
        recompute=dict(_delete_=True),  # a frame needs a tenth of a clip's memory
    )
)
sample = _base_.sample
sample.update(clip_len=1, frame_interval=1, density='none')
train_pipeline = [_base_.open_video, sample, _base_.decode, _base_.augment, *_base_.pack]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
