_base_ = './ava22_frames.py'

annotations = 'data/ava/annotations/'
labels = annotations + 'ava_action_list_v2.1_for_activitynet_2018.pbtxt'
train = dict(
    ann_file=annotations + 'ava_train_v2.1.csv',
    exclude_file=annotations + 'ava_train_excluded_timestamps_v2.1.csv',
    label_file=labels,
)
val = dict(
    ann_file=annotations + 'ava_val_v2.1.csv',
    exclude_file=annotations + 'ava_val_excluded_timestamps_v2.1.csv',
    label_file=labels,
)
train_dataloader = dict(dataset=train)
val_dataloader = dict(dataset=val)
test_dataloader = val_dataloader
val_evaluator = val
test_evaluator = val
