# From scratch on 1 % of the labels. Paper: 4.3 % (Table 10) without its schedule.
_base_ = '../semi_supervised/semi_k600_1pct.py'
model = dict(backbone=dict(init_cfg=None))
