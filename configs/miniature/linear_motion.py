# Linear evaluation of the weights of cvrl_motion.py on the generated videos.
_base_ = [
    '../_base_/models/linear_r3d50.py',
    '../_base_/models/miniature_r3d.py',
    '../_base_/datasets/motion_clips.py',
    '../_base_/schedules/linear_sgd.py',
    '../_base_/default_runtime.py',
]
checkpoint = 'work_dirs/cvrl_motion/iter_800.pth'
model = dict(
    backbone=dict(**_base_.small_backbone, init_cfg=dict(checkpoint=checkpoint)),
    cls_head=dict(in_channels=128, num_classes=16),
)
# The paper's learning rate, not scaled down to 64 videos, as there are 300 steps in all instead
# of 23,000; float32, which is faster on a CPU
optim_wrapper = dict(type='OptimWrapper')
auto_scale_lr = dict(base_batch_size=64)
train_cfg = dict(max_epochs=20)
