_base_ = './supervised_sgd.py'
optim_wrapper = dict(optimizer=dict(lr=0.2))  # for a batch of 1024 (Sec. 4.1)
train_cfg = dict(max_epochs=100)  # on 1 % of the labels (Sec. 4.1)
# Half a cosine, no warm-up (Sec. 4.1)
param_scheduler = [dict(type='CosineAnnealingLR', eta_min=0.0, convert_to_iter_based=True)]
