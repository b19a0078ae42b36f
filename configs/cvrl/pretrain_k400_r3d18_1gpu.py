# For one GPU of 12 GB: R3D-18 on clips of 8 frames of 112x112, 64 videos a step.
_base_ = './pretrain_k400_200e.py'
model = dict(
    backbone=dict(depth=18),
    cls_head=dict(in_channels=512, hidden_channels=512),
)
# 0.32 for 1024 videos, scaled to 64 (linear rule; --auto-scale-lr would scale it again)
optim_wrapper = dict(optimizer=dict(lr=0.02))
auto_scale_lr = dict(base_batch_size=64)
train_dataloader = dict(batch_size=64)
