_base_ = './supervised_sgd.py'
optim_wrapper = dict(optimizer=dict(lr=0.16))  # for a batch of 128 (Sec. 4.1)
auto_scale_lr = dict(base_batch_size=128)
train_cfg = dict(max_epochs=50)  # Sec. 4.1
