_base_ = './pretrain_k400.py'
train_cfg = dict(max_epochs=100)  # Table 8
