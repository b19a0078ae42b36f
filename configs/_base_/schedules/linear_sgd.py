# Momentum, batch of 1024 and 5 epochs of warm-up as in pre-training (Sec. 4.1).
_base_ = './cvrl_sgd.py'
# Learning rate: Sec. 4.1; no weight decay: the released code. Without weight decay, paramwise_cfg
# would only make mmengine warn of each frozen parameter
optim_wrapper = dict(optimizer=dict(lr=32.0, weight_decay=0.0), paramwise_cfg=dict(_delete_=True))
train_cfg = dict(max_epochs=100, val_interval=10)  # Sec. 4.1
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')
sync_bn = None  # the encoder's statistics are fixed
