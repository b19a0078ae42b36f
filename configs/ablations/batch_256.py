# Table 7. Linear evaluation in the paper: 60.2 %. The paper does not say whether the learning rate
# depends on the batch size; here it is proportional, 0.32 for 1024 videos.
_base_ = '../cvrl/pretrain_k400_200e.py'
train_dataloader = dict(batch_size=32)  # on each of 8 ranks
optim_wrapper = dict(optimizer=dict(lr=0.08))
auto_scale_lr = dict(base_batch_size=256)
