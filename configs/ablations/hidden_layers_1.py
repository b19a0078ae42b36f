# Table 6. Linear evaluation in the paper: 62.5 %.
_base_ = '../cvrl/pretrain_k400_200e.py'
model = dict(cls_head=dict(num_hidden_layers=1))
