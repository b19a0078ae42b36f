_base_ = ['./ava22_frames.py', '../ava21_annotations.py']
train_dataloader = dict(dataset=_base_.ava21_train)
val_dataloader = dict(dataset=_base_.ava21_val)
test_dataloader = val_dataloader
val_evaluator = _base_.ava21_val
test_evaluator = val_evaluator
