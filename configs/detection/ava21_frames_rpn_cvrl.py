# R3D-50 on AVA 2.1 with a region proposal network of its own, from CVRL's weights.
_base_ = [
    '../_base_/models/ava_faster_rcnn.py',
    '../_base_/datasets/ava21_frames.py',
    '../_base_/schedules/ava_sgd_12e.py',
    '../_base_/default_runtime.py',
]
custom_imports = dict(imports=['cvrl_mm', 'cvrl_mm.detection'], allow_failed_imports=False)
model = dict(
    backbone=dict(
        init_cfg=dict(
            type='Pretrained',
            checkpoint='work_dirs/pretrain_k400/epoch_800.pth',
            prefix='backbone.',
        )
    )
)
train_dataloader = dict(dataset=dict(proposal_file=None))
val_dataloader = dict(dataset=dict(proposal_file=None))
test_dataloader = val_dataloader
