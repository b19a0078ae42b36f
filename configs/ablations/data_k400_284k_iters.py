# Figure 4: as many steps of 1024 videos as 800 epochs of Kinetics-600 have.
_base_ = '../cvrl/pretrain_k400.py'
train_cfg = dict(max_epochs=1235)  # 284k steps at 230 an epoch
