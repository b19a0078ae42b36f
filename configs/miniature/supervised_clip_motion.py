# Classifying the motion from a clip, supervised: the control of supervised_frame_motion.py.
_base_ = './supervised_motion.py'
model = dict(cls_head=dict(num_classes=4))
train_dataloader = dict(dataset=dict(ann_file='data/motion/train_motion.txt'))
val_dataloader = dict(dataset=dict(ann_file='data/motion/test_motion.txt'))
test_dataloader = val_dataloader
train_cfg = dict(max_epochs=30)  # four motions are learned sooner than 16 classes
