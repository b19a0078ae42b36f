# Which motion it is, from one frame, supervised: whether single frames give the motion away.
# train_motion.txt and test_motion.txt name the motion (0 to 3) instead of the class.
_base_ = './supervised_motion.py'
model = dict(
    backbone=dict(conv1_kernel=(1, 7, 7), conv1_stride_t=1, inflate=(0, 0, 0, 0)),
    cls_head=dict(num_classes=4),
)
train_pipeline = _base_.train_pipeline
train_pipeline[1].update(clip_len=1, frame_interval=1)
test_pipeline = _base_.test_pipeline
test_pipeline[1].update(clip_len=1, frame_interval=1)
train_dataloader = dict(
    dataset=dict(ann_file='data/motion/train_motion.txt', pipeline=train_pipeline)
)
val_dataloader = dict(dataset=dict(ann_file='data/motion/test_motion.txt', pipeline=test_pipeline))
test_dataloader = val_dataloader
