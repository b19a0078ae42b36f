# Movies of two moving figures; the motion is the action. To write the data set:
#   python tools/data/make_synthetic_ava.py data/synthetic_ava
annotations = 'data/synthetic_ava/annotations/'
actions = [12, 17, 64]

sample = dict(type='SampleAVAFrames', clip_len=8, frame_interval=3, test_mode=True)
decode = dict(type='RawFrameDecode')
pack = [
    dict(type='FormatShape', input_format='NCTHW', collapse=True),
    dict(type='PackActionInputs'),
]
train_views = [dict(type='Flip', flip_ratio=0.5), *pack]
test_views = [dict(type='Resize', scale=(-1, 64)), *pack]

dataset = dict(
    type='AVAKeyframeDataset',
    label_file=annotations + 'actions.pbtxt',
    custom_classes=actions,
    num_classes=4,
    data_prefix=dict(img='data/synthetic_ava/rawframes'),
)
train_dataloader = dict(
    batch_size=8,
    num_workers=0,
    sampler=dict(type='DefaultSampler', shuffle=True),
    collate_fn=dict(type='pseudo_collate'),
    dataset=dict(
        **dataset,
        ann_file=annotations + 'train.csv',
        exclude_file=annotations + 'train_excluded.csv',
        proposal_file=annotations + 'train_proposals.pkl',
        pipeline=[sample, decode, *train_views],
    ),
)
val_dataloader = dict(
    batch_size=1,
    num_workers=0,
    sampler=dict(type='DefaultSampler', shuffle=False),
    collate_fn=dict(type='pseudo_collate'),
    dataset=dict(
        **dataset,
        ann_file=annotations + 'val.csv',
        exclude_file=annotations + 'val_excluded.csv',
        proposal_file=annotations + 'val_proposals.pkl',
        pipeline=[sample, decode, *test_views],
        test_mode=True,
        key_seconds=(901, 903),
    ),
)
test_dataloader = val_dataloader
val_evaluator = dict(
    type='AVAKeyframeMetric',
    ann_file=annotations + 'val.csv',
    exclude_file=annotations + 'val_excluded.csv',
    label_file=annotations + 'actions.pbtxt',
    custom_classes=actions,
    num_classes=4,
    action_thr=0.0,
)
test_evaluator = val_evaluator
