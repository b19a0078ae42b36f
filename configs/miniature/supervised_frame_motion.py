# Classifying the motion from one frame, supervised: whether a single frame reveals the motion.
# train_motion.txt and test_motion.txt name the motion (0 to 3) instead of the class.
_base_ = './supervised_motion.py'
model = dict(
    backbone=dict(conv1_kernel=(1, 7, 7), conv1_stride_t=1, inflate=(0, 0, 0, 0)),
    cls_head=dict(num_classes=4),
)
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
train_dataloader = dict(
    dataset=dict(ann_file='data/motion/train_motion.txt', pipeline=train_pipeline)
)
val_dataloader = dict(dataset=dict(ann_file='data/motion/test_motion.txt', pipeline=test_pipeline))
test_dataloader = val_dataloader
train_cfg = dict(max_epochs=30)  # four motions are learned sooner than 16 classes
