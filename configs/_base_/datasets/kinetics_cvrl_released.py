# The released code's clips differ in strength: the first one is always blurred, the second one
# rarely, and that one may be solarised
_base_ = './kinetics_cvrl.py'
train_pipeline = _base_.train_pipeline
train_pipeline[3].transforms[-1].update(prob=(1.0, 0.1))  # ClipGaussianBlur
train_pipeline[3].transforms.append(dict(type='ClipSolarize', threshold=0.5, prob=(0.0, 0.2)))
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
