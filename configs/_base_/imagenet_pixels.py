# Normalisation of torchvision's ResNet-50, whose weights are inflated
imagenet_pixels = dict(mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375])
