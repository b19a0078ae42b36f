# Like linear evaluation, but all layers are trained, from scratch (Sec. 4.1).
_base_ = './linear_sgd.py'
# Learning rate: Sec. 4.1. The paper gives no weight decay; 1e-4 is SlowFast's, which it
# follows here. It applies only to kernels, as in pre-training.
optim_wrapper = dict(
    optimizer=dict(lr=0.8, weight_decay=1e-4),
    paramwise_cfg=dict(norm_decay_mult=0.0, bias_decay_mult=0.0),
)
train_cfg = dict(max_epochs=200)  # Sec. 4.1
sync_bn = 'torch'
