# Classifying one frame, supervised: how much of the class a single frame reveals.
_base_ = './supervised_motion.py'
model = dict(backbone=dict(conv1_kernel=(1, 5, 5), conv1_stride_t=1, inflate=(0, 0, 0, 0)))
sample_train, sample_test = _base_.sample_train, _base_.sample_test
sample_train.update(clip_len=1, frame_interval=1)
sample_test.update(clip_len=1, frame_interval=1)
train_pipeline = [
    _base_.open_video,
    sample_train,
    dict(type='VideoFileDecode'),
    _base_.crop,
    _base_.resize,
    _base_.flip,
    *_base_.pack,
]
test_pipeline = [_base_.open_video, sample_test, _base_.decode, _base_.resize, *_base_.pack]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=test_pipeline))
test_dataloader = val_dataloader
