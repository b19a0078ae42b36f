# Fine-tuning SlowFast's encoders on HMDB-51.
_base_ = ['../finetune/finetune_hmdb51_split1.py', '../_base_/slowonly_8x8.py']
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
