# From scratch on 10 % of the labels. Paper: 39.6 % (Table 3) without its schedule.
_base_ = '../semi_supervised/semi_k400_10pct.py'
model = dict(backbone=dict(init_cfg=None))
