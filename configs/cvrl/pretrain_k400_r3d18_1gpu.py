# For one ordinary GPU: R3D-18 on clips of 8 frames of 112x112, 64 videos a step.
_base_ = './pretrain_k400_200e.py'
model = dict(
    backbone=dict(depth=18, recompute=dict(_delete_=True)), cls_head=dict(hidden_channels=512)
)
# The paper's 0.32 for 1024 videos by the linear rule; --auto-scale-lr starts from 64 as well
optim_wrapper = dict(optimizer=dict(lr=0.02))
auto_scale_lr = dict(base_batch_size=64)

sample, resize, blur = _base_.sample, _base_.resize, _base_.blur
sample.clip_len = 8
resize.scale = (112, 112)
blur.kernel_size = 11  # a tenth of the frame, as at 224
augment = dict(
    type='ConsistentAugment',
    transforms=[_base_.crop, resize, _base_.flip, _base_.jitter, _base_.grayscale, blur],
)
train_pipeline = [_base_.open_video, sample, _base_.decode, augment, *_base_.pack]
train_dataloader = dict(batch_size=64, dataset=dict(pipeline=train_pipeline))
