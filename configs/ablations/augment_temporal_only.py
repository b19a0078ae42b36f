# Table 9, row 1: intervals are drawn, frames are the same centre crop for both clips. 33.0 %.
_base_ = '../cvrl/pretrain_k400_200e.py'
train_pipeline = _base_.train_pipeline
train_pipeline[3].transforms = [
    dict(type='Resize', scale=(-1, 256)),
    dict(type='CenterCrop', crop_size=224),
]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
