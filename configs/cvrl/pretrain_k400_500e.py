_base_ = './pretrain_k400.py'
train_cfg = dict(max_epochs=500)  # Table 8
