# Colour and blur on the device instead of in the loader, for nodes with few CPU cores a GPU.
_base_ = './pretrain_k400.py'
model = dict(
    data_preprocessor=dict(type='ClipAugmentDataPreprocessor', transforms=_base_.photometric)
)
crop = dict(type='ConsistentAugment', over='clip', transforms=_base_.spatial)
train_dataloader = dict(dataset=dict(pipeline=[*_base_.loading, crop, *_base_.packing]))
