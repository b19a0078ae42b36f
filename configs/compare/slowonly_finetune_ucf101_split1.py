# Fine-tuning SlowFast's encoders on UCF-101. Published: 91.3 % on split 1 (MoCo).
_base_ = ['../finetune/finetune_ucf101_split1.py', '../_base_/slowonly_8x8.py']
model = dict(
    backbone=dict(
        **_base_.slowonly,
        # written by: python tools/convert_checkpoint.py slowfast MoCo_SlowR50_8x8_T2_….pyth
        init_cfg=dict(checkpoint='checkpoints/slowonly_r50_8x8_moco.pth'),
    ),
    data_preprocessor=_base_.slowfast_pixels,
)
train_dataloader = dict(dataset=dict(pipeline=_base_.train_8x8))
val_dataloader = dict(dataset=dict(pipeline=_base_.val_8x8))
test_dataloader = dict(dataset=dict(pipeline=_base_.test_8x8))
feature_pipeline = _base_.features_8x8
