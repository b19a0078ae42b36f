# Figure 4: as many steps of 1024 videos as 200 epochs of Kinetics-400 have.
_base_ = '../cvrl/pretrain_k600.py'
train_cfg = dict(max_epochs=130)  # 46k steps at 355 an epoch
