# Fine-tune an encoder on a data set of your own, with MMAction2's recognizer, head and script:
#   mim train mmaction docs/examples/finetune.py
_base_ = 'mmaction::_base_/default_runtime.py'
custom_imports = dict(imports=['cvrl_mm'], allow_failed_imports=False)
model = dict(
    type='Recognizer3D',
    backbone=dict(
        type='R3DSlow',
        depth=50,
        init_cfg=dict(type='Pretrained', checkpoint='k400.pth', prefix='backbone.'),
    ),
    cls_head=dict(type='I3DHead', num_classes=10, in_channels=2048, average_clips='prob'),
    data_preprocessor=dict(
        type='ActionDataPreprocessor',
        mean=[0, 0, 0],
        std=[255, 255, 255],  # as in pre-training
        format_shape='NCTHW',
    ),
)
clip = dict(clip_len=32, frame_interval=2, fps=25)  # load_encoder('k400.pth').clip_input
pack = [dict(type='FormatShape', input_format='NCTHW'), dict(type='PackActionInputs')]
train_pipeline = [
    dict(type='VideoFileInit'),  # DecordInit and DecordDecode work as well
    dict(type='RandomClipSample', **clip),  # one clip per video
    dict(type='VideoFileDecode'),
    dict(
        type='ConsistentAugment',
        over='clip',
        transforms=[
            dict(type='RandomResizedCrop', area_range=(0.3, 1.0), aspect_ratio_range=(0.5, 2.0)),
            dict(type='Resize', scale=(224, 224), keep_ratio=False),
            dict(type='Flip', flip_ratio=0.5),
            dict(type='ClipColorJitter', prob=0.8),
        ],
    ),
    *pack,
]
test_pipeline = [
    dict(type='VideoFileInit'),
    dict(type='EvenClipSample', num_clips=10, **clip),
    dict(type='VideoFileDecode'),
    dict(type='Resize', scale=(-1, 256)),
    dict(type='CenterCrop', crop_size=256),
    *pack,
]
train_dataloader = dict(
    batch_size=8,
    num_workers=4,
    persistent_workers=True,
    sampler=dict(type='DefaultSampler', shuffle=True),
    dataset=dict(
        type='VideoListDataset',
        ann_file='data/train.txt',  # lines "path label", labels from 0 to 9
        data_prefix=dict(video='data/videos'),
        pipeline=train_pipeline,
    ),
)
val_dataloader = test_dataloader = dict(
    batch_size=1,
    num_workers=4,
    persistent_workers=True,
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(
        type='VideoListDataset',
        ann_file='data/val.txt',
        data_prefix=dict(video='data/videos'),
        pipeline=test_pipeline,
        test_mode=True,
    ),
)
val_evaluator = test_evaluator = dict(type='AccMetric')
# saves on SIGTERM and Ctrl-C (mim kills it then), and --resume continues with the next step
train_cfg = dict(type='SeededEpochLoop', max_epochs=50, val_interval=5)
default_hooks = dict(
    checkpoint=dict(type='AtomicCheckpointHook', interval=1, max_keep_ckpts=3),
    checks=dict(type='ChecksHook'),
)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')
optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.01, momentum=0.9, weight_decay=1e-4))
param_scheduler = [dict(type='CosineAnnealingLR', T_max=50)]
