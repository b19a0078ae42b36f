# A linear classifier on a random encoder; not in the paper.
_base_ = '../linear/linear_k400.py'
model = dict(backbone=dict(init_cfg=None))
