# Linear evaluation of pretrain_k400_r3d18_1gpu on one GPU; not in the paper. As there, clips are
# twice as long as in pre-training; frames are half as large.
_base_ = './linear_k400.py'
checkpoint = 'work_dirs/pretrain_k400_r3d18_1gpu/epoch_200.pth'
model = dict(
    backbone=dict(depth=18, init_cfg=dict(checkpoint=checkpoint)), cls_head=dict(in_channels=512)
)
# The paper's 32 for 1024 videos by the linear rule; --auto-scale-lr starts from 64 as well
optim_wrapper = dict(optimizer=dict(lr=2.0))
auto_scale_lr = dict(base_batch_size=64)

clip = dict(clip_len=16)
sample_train = dict(_base_.sample_train, **clip)
sample_val = dict(_base_.sample_val, **clip)
sample_test = dict(_base_.sample_test, **clip)
resize = dict(_base_.resize, scale=(112, 112))
short_side = dict(_base_.short_side, scale=(-1, 128))
center_crop = dict(_base_.center_crop, crop_size=128)
three_crop = dict(_base_.three_crop, crop_size=128)
opening, pack = [_base_.open_video], _base_.pack
train_pipeline = [*opening, sample_train, _base_.decode, _base_.crop, resize, _base_.flip, *pack]
val_pipeline = [*opening, sample_val, _base_.decode, short_side, center_crop, *pack]
test_pipeline = [*opening, sample_test, _base_.decode, short_side, three_crop, *pack]
feature_pipeline = [*opening, sample_test, _base_.decode, short_side, center_crop, *pack]
train_dataloader = dict(batch_size=64, dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=val_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
