model = dict(
    type='CVRL',
    # Table 1. In the layout of the clips, gradients have the strides that DDP and SGD expect
    backbone=dict(type='R3DSlow', depth=50, channels_last=True),
    cls_head=dict(
        type='InfoNCEHead',
        # in_channels: set to the backbone's
        hidden_channels=2048,
        num_hidden_layers=3,  # Table 6
        out_channels=128,  # Sec. 3.2
        temperature=0.1,  # Sec. 4.1
    ),
    # Frames in [0, 1], without mean or deviation: the released code
    data_preprocessor=dict(
        type='ClipDataPreprocessor',
        mean=[0.0, 0.0, 0.0],
        std=[255.0, 255.0, 255.0],
        format_shape='NCTHW',
    ),
)
