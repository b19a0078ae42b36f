_base_ = './linear_ucf101_sgd.py'
optim_wrapper = dict(optimizer=dict(lr=0.2))  # for a batch of 128 (Sec. 4.1)
