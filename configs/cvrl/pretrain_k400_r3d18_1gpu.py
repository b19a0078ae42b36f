# For one ordinary GPU: R3D-18 on clips of 8 frames of 112x112, 64 videos a step.
_base_ = './pretrain_k400_200e.py'
model = dict(backbone=dict(depth=18), cls_head=dict(in_channels=512, hidden_channels=512))
# The paper's 0.32 for 1024 videos by the linear rule; --auto-scale-lr starts from 64 as well
optim_wrapper = dict(optimizer=dict(lr=0.02))
auto_scale_lr = dict(base_batch_size=64)

_base_.loading[1].clip_len = 8
_base_.spatial[1].scale = (112, 112)
_base_.photometric[2].kernel_size = 11  # a tenth of the frame, as at 224
augment = dict(type='ConsistentAugment', transforms=[*_base_.spatial, *_base_.photometric])
train_dataloader = dict(
    batch_size=64, dataset=dict(pipeline=[*_base_.loading, augment, *_base_.packing])
)
