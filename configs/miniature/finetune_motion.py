# Fine-tuning the weights of cvrl_motion.py on the generated videos.
_base_ = [
    '../_base_/models/recognizer_r3d50.py',
    '../_base_/models/miniature_r3d.py',
    '../_base_/datasets/motion_clips.py',
    '../_base_/schedules/finetune_sgd.py',
    '../_base_/default_runtime.py',
]
checkpoint = 'work_dirs/cvrl_motion/iter_800.pth'
model = dict(
    backbone=dict(**_base_.small_backbone, init_cfg=dict(checkpoint=checkpoint)),
    cls_head=dict(in_channels=128, num_classes=16),
)
# 0.16 for 128 videos, scaled to 64; float32, which is faster on a CPU
optim_wrapper = dict(type='OptimWrapper', optimizer=dict(lr=0.08))
auto_scale_lr = dict(base_batch_size=64)
train_cfg = dict(max_epochs=10)
