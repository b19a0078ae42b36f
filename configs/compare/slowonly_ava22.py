# SlowFast's contrastive encoders on AVA 2.2 with given boxes. Published: 19.7 % mAP (MoCo).
_base_ = ['../detection/ava22_videos_cvrl.py', '../_base_/slowonly_8x8.py']
model = _base_.slowonly_model
clip = dict(type='ReadAVAClip', **_base_.clip_8x8)
train_dataloader = dict(dataset=dict(pipeline=[clip, *_base_.train_views]))
val_dataloader = dict(dataset=dict(pipeline=[clip, *_base_.test_views]))
test_dataloader = val_dataloader
