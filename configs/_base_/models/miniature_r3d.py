# The backbone of configs/miniature: one block per stage, 16 to 128 channels; frames of 32x32 need a
# smaller first kernel
small_backbone = dict(
    depth=18,
    width=0.25,
    stage_blocks=(1, 1, 1, 1),
    conv1_kernel=(3, 5, 5),
    channels_last=True,
)
