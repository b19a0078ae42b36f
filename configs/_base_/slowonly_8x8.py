# SlowOnly, 8 frames at stride 8, as SlowFast trains it (projects/contrastive_ssl): a stem without
# temporal kernel or stride, frames in [0, 1] normalised by 0.45 and 0.225
slowonly_model = dict(
    backbone=dict(
        conv1_kernel=(1, 7, 7),
        conv1_stride_t=1,
        # written by: cvrl convert slowfast MoCo_SlowR50_8x8_T2_….pyth
        init_cfg=dict(checkpoint='checkpoints/slowonly_r50_8x8_moco.pth'),
    ),
    data_preprocessor=dict(mean=[114.75, 114.75, 114.75], std=[57.375, 57.375, 57.375]),
)

# The pipelines of kinetics400_clips.py with clips of 8 frames, stride 8
opening = dict(type='VideoFileInit')
decoding = dict(type='VideoFileDecode')
clip_8x8 = dict(clip_len=8, frame_interval=8)
sample_once = dict(type='SampleFrames', **clip_8x8, num_clips=1)
sample_ten = dict(type='EvenClipSample', **clip_8x8, num_clips=10)
to_256 = dict(type='Resize', scale=(-1, 256))
middle = dict(type='CenterCrop', crop_size=256)
packing = [dict(type='FormatShape', input_format='NCTHW'), dict(type='PackActionInputs')]
train_pipeline_8x8 = [
    opening,
    sample_once,
    decoding,
    dict(type='RandomResizedCrop', area_range=(0.3, 1.0), aspect_ratio_range=(0.5, 2.0)),
    dict(type='Resize', scale=(224, 224), keep_ratio=False),
    dict(type='Flip', flip_ratio=0.5),
    *packing,
]
val_pipeline_8x8 = [
    opening,
    dict(**sample_once, test_mode=True),
    decoding,
    to_256,
    middle,
    *packing,
]
test_pipeline_8x8 = [
    opening,
    sample_ten,
    decoding,
    to_256,
    dict(type='ThreeCrop', crop_size=256),
    *packing,
]
features_8x8 = [opening, sample_ten, decoding, to_256, middle, *packing]
train_8x8 = dict(dataset=dict(pipeline=train_pipeline_8x8))
val_8x8 = dict(dataset=dict(pipeline=val_pipeline_8x8))
test_8x8 = dict(dataset=dict(pipeline=test_pipeline_8x8))
