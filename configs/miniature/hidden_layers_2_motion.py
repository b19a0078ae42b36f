# Table 6 on the generated videos.
_base_ = './cvrl_motion.py'
model = dict(cls_head=dict(num_hidden_layers=2))
