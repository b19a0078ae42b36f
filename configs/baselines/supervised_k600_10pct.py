# From scratch on 10 % of the labels. Paper: 45.3 % (Table 10) without its schedule.
_base_ = '../semi_supervised/semi_k600_10pct.py'
model = dict(backbone=dict(init_cfg=None))
