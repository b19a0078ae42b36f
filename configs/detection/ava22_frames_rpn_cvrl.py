# R3D-50 on AVA 2.2 from extracted frames, weights of CVRL, with its own region proposal network.
_base_ = [
    '../_base_/models/ava_faster_rcnn.py',
    '../_base_/datasets/ava22_frames.py',
    '../_base_/schedules/ava_sgd_12e.py',
    '../_base_/detection_runtime.py',
]
train_dataloader = dict(dataset=dict(proposal_file=None))
val_dataloader = dict(dataset=dict(proposal_file=None))
test_dataloader = val_dataloader
