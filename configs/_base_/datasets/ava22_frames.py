# AVA 2.2 from extracted frames, 30 per second from second 900 on
annotations = 'data/ava/annotations/'
frames = 'data/ava/rawframes'

# 32 frames, stride 2, around the key frame; test_mode: without jittering their positions
sample = dict(type='SampleAVAFrames', clip_len=32, frame_interval=2, test_mode=True)
decode = dict(type='RawFrameDecode')
pack = [
    dict(type='FormatShape', input_format='NCTHW', collapse=True),
    dict(type='PackActionInputs'),
]
# SlowFast: short side 256 to 320, crops of 224 and flips for training, short side 256 for testing
train_views = [
    dict(type='RandomRescale', scale_range=(256, 320)),
    dict(type='RandomCrop', size=224),
    dict(type='KeepVisibleBoxes'),
    dict(type='Flip', flip_ratio=0.5),
    *pack,
]
test_views = [dict(type='Resize', scale=(-1, 256)), *pack]

dataset = dict(
    type='AVAKeyframeDataset',
    label_file=annotations + 'ava_action_list_v2.2_for_activitynet_2019.pbtxt',
    person_det_score_thr=0.8,  # SlowFast
    data_prefix=dict(img=frames),
)
train_dataloader = dict(
    batch_size=4,  # of 32 videos on 8 ranks (Sec. 4.1)
    num_workers=8,
    timeout=500,  # seconds per batch, below the one of dist_cfg
    sampler=dict(type='DefaultSampler', shuffle=True),
    dataset=dict(
        **dataset,
        ann_file=annotations + 'ava_train_v2.2.csv',
        exclude_file=annotations + 'ava_train_excluded_timestamps_v2.2.csv',
        proposal_file=annotations + 'ava_dense_proposals_train.FAIR.recall_93.9.pkl',
        pipeline=[sample, decode, *train_views],
    ),
)
val_dataloader = dict(
    batch_size=1,  # MMAction2's action head tests one clip at a time
    num_workers=8,
    persistent_workers=True,
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(
        **dataset,
        ann_file=annotations + 'ava_val_v2.2.csv',
        exclude_file=annotations + 'ava_val_excluded_timestamps_v2.2.csv',
        proposal_file=annotations + 'ava_dense_proposals_val.FAIR.recall_93.9.pkl',
        pipeline=[sample, decode, *test_views],
        test_mode=True,
        key_seconds=(902, 1798),  # evaluated by AVA; None: only annotated ones, as in MMAction2
    ),
)
test_dataloader = val_dataloader
val_evaluator = dict(
    type='AVAKeyframeMetric',
    ann_file=annotations + 'ava_val_v2.2.csv',
    exclude_file=annotations + 'ava_val_excluded_timestamps_v2.2.csv',
    label_file=annotations + 'ava_action_list_v2.2_for_activitynet_2019.pbtxt',
    action_thr=0.0,  # detections of all scores count
)
test_evaluator = val_evaluator
