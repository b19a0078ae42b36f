# Supervised from scratch on the generated videos.
_base_ = './finetune_motion.py'
model = dict(backbone=dict(init_cfg=None))
train_cfg = dict(max_epochs=60)
