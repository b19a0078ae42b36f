# From scratch on 1 % of the labels. Paper: 3.2 % (Table 3) without its schedule.
_base_ = '../semi_supervised/semi_k400_1pct.py'
model = dict(backbone=dict(init_cfg=None))
