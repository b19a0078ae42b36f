# Movies of two moving figures; the motion is the action. To write the data set:
#   python tools/data/make_synthetic_ava.py data/synthetic_ava
_base_ = './ava22_frames.py'
annotations = 'data/synthetic_ava/annotations/'
frames = 'data/synthetic_ava/rawframes'
classes = dict(custom_classes=[12, 17, 64], num_classes=4)

sample = dict(type='SampleAVAFrames', clip_len=8, frame_interval=3, test_mode=True)
train_views = [dict(type='Flip', flip_ratio=0.5), *_base_.pack]
test_views = [dict(type='Resize', scale=(-1, 64)), *_base_.pack]

dataset = dict(
    label_file=annotations + 'actions.pbtxt',
    person_det_score_thr=0.9,
    data_prefix=dict(img=frames),
    **classes,
)
in_one_process = dict(num_workers=0, persistent_workers=False)
train_dataloader = dict(
    **in_one_process,
    batch_size=8,
    dataset=dict(
        **dataset,
        ann_file=annotations + 'train.csv',
        exclude_file=annotations + 'train_excluded.csv',
        proposal_file=annotations + 'train_proposals.pkl',
        pipeline=[sample, _base_.decode, *train_views],
    ),
)
val_dataloader = dict(
    **in_one_process,
    dataset=dict(
        **dataset,
        ann_file=annotations + 'val.csv',
        exclude_file=annotations + 'val_excluded.csv',
        proposal_file=annotations + 'val_proposals.pkl',
        pipeline=[sample, _base_.decode, *test_views],
        key_seconds=(901, 903),
    ),
)
test_dataloader = val_dataloader
val_evaluator = dict(
    ann_file=annotations + 'val.csv',
    exclude_file=annotations + 'val_excluded.csv',
    label_file=annotations + 'actions.pbtxt',
    **classes,
)
test_evaluator = val_evaluator
