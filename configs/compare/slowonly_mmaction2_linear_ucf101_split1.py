# Linear evaluation, k-NN and retrieval of MMAction2's own SlowOnly checkpoints on UCF-101.
_base_ = ['./slowonly_linear_ucf101_split1.py', '../_base_/imagenet_pixels.py']
model = dict(
    # as downloaded; nothing needs to be converted
    backbone=dict(init_cfg=dict(checkpoint='checkpoints/slowonly_r50_mmaction2.pth')),
    data_preprocessor=_base_.imagenet_pixels,
)
