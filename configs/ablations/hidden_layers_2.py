# Table 6. Linear evaluation in the paper: 63.0 %.
_base_ = '../cvrl/pretrain_k400_200e.py'
model = dict(cls_head=dict(num_hidden_layers=2))
