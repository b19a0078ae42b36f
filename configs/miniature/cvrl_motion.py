# CVRL on generated motion videos, minutes on two CPU cores; tools/quickstart.sh runs it.
_base_ = [
    '../_base_/models/cvrl_r3d50.py',
    '../_base_/datasets/motion_cvrl.py',
    '../_base_/schedules/miniature_adamw.py',
    '../_base_/miniature_runtime.py',
]
# One block per stage, 16 to 128 channels; frames of 32x32 need a smaller first kernel
model = dict(
    backbone=dict(
        depth=18,
        width=0.25,
        stage_blocks=(1, 1, 1, 1),
        conv1_kernel=(3, 5, 5),
        channels_last=True,
    ),
    cls_head=dict(in_channels=128, hidden_channels=128, out_channels=64),
)
