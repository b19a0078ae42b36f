# Linear evaluation of SlowFast's contrastive encoders on Kinetics-400. Published: 66.6 % (MoCo).
_base_ = ['../linear/linear_k400.py', '../_base_/slowonly_8x8.py']
model = _base_.slowonly_model
train_dataloader = _base_.train_8x8
val_dataloader = _base_.val_8x8
test_dataloader = _base_.test_8x8
feature_pipeline = _base_.features_8x8
test_pipeline = _base_.test_pipeline_8x8  # of inference_recognizer
