# Annotation files of AVA 2.1
ava21_train = dict(
    ann_file='data/ava/annotations/ava_train_v2.1.csv',
    exclude_file='data/ava/annotations/ava_train_excluded_timestamps_v2.1.csv',
    label_file='data/ava/annotations/ava_action_list_v2.1_for_activitynet_2018.pbtxt',
)
ava21_val = dict(
    ann_file='data/ava/annotations/ava_val_v2.1.csv',
    exclude_file='data/ava/annotations/ava_val_excluded_timestamps_v2.1.csv',
    label_file='data/ava/annotations/ava_action_list_v2.1_for_activitynet_2018.pbtxt',
)
