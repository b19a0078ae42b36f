# Table 7. Linear evaluation in the paper: 61.8 %. The paper does not say whether the learning rate
# depends on the batch size; here it is proportional, 0.32 for 1024 videos.
_base_ = '../cvrl/pretrain_k400_200e.py'
train_dataloader = dict(batch_size=256)  # on each of 8 ranks
model = dict(backbone=dict(recompute=dict(layer1=1, layer2=2, layer3='last', layer4='last')))
optim_wrapper = dict(optimizer=dict(lr=0.64))
auto_scale_lr = dict(base_batch_size=2048)
