from pathlib import Path

import torch
from mmaction.registry import TRANSFORMS
from mmcv.transforms import Compose

from cvrl_mm.convert.clip_input import ClipInput
from cvrl_mm.evaluation.clip_pipeline import clip_steps, decoding_steps


def test_gives_clips_of_the_wanted_number_length_and_size(motion_set: Path):
    clip_input = ClipInput(clip_len=4, frame_interval=3, size=32)
    steps = decoding_steps(clip_steps(clip_input, num_clips=5))
    pipeline = Compose([TRANSFORMS.build(step) for step in steps])
    video = next((motion_set / 'videos').rglob('*.mp4'))
    inputs = pipeline(dict(filename=str(video), label=0, modality='RGB', start_index=0))['inputs']
    assert inputs.shape == (5, 3, 4, 32, 32)
    assert inputs.dtype == torch.uint8
