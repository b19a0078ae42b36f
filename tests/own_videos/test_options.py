import json
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from mmengine.config import Config

from cvrl_mm.own_videos.options import Options, check_config


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        (dict(hours=1, steps=3), 'exclude each other'),
        (dict(encoder='resnet'), 'one of .*small'),
        (dict(encoder='small', init='a.pth'), 'determines the architecture'),
        (dict(batch_size=1), 'batch_size must be .* from 2'),
        (dict(hours=0), 'hours must be .* from'),
        (dict(lr=float('nan')), 'lr must be .* from'),
        (dict(size=16), 'size must be .* from 32'),
        (dict(workers=-1), 'workers must be .* from 0'),
        (dict(seed=-1), 'seed must be .* from 0'),
        (dict(seed=2**32), 'seed must be .* from 0'),
        (dict(steps=10**23), 'steps must be .* from 1'),
        (dict(hours=1e308), 'hours must be .* from'),
        (dict(frame_interval=10**21), 'frame_interval must be .* from'),
        (dict(lr=1e300), 'lr must be .* from'),
        (dict(steps=0), 'steps must be .* from 1'),
        (dict(segment_seconds=float('inf')), 'segment_seconds must be .* from'),
        (dict(segment_seconds=None), 'segment_seconds must be a number'),
        (dict(steps=4.5), r'steps must be an integer from 1 to 1000000000, got 4\.5'),
        (dict(steps='4'), "steps must be an integer .* got '4'"),
        (dict(clip_len=8.5), 'clip_len must be an integer'),
        (dict(batch_size=True), 'batch_size must be an integer'),
        (dict(hours='2'), r'hours must be a number from 0\.000000001 to 100000, got'),
        (dict(lr=True), 'lr must be a number'),
        (dict(seed=None), 'seed must be an integer from 0 to 4294967295, got None'),
        (dict(flip='no'), "flip must be True or False, got 'no'"),
        (dict(encoder=[]), 'one of .*small'),
    ],
)
def test_wrong_options(options: dict, message: str):
    with pytest.raises(ValueError, match=message):
        Options(**options)


def test_defaults_and_limits_are_valid():
    Options(size=32, batch_size=2, workers=0, steps=1, segment_seconds=0.5)
    assert Options().segment_seconds == 30


def test_numbers_of_numpy_are_stored_as_those_of_python():
    options = Options(steps=np.int64(4), lr=np.float32(0.5), segment_seconds=np.int32(3))
    stored = json.loads(json.dumps(asdict(options)))
    assert (stored['steps'], stored['lr'], stored['segment_seconds']) == (4, 0.5, 3)


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('size = 0', r'^size in .*edited\.py must be an integer from 32 to 4096, got 0\.$'),
        ("size = '32'", "^size in .* got '32'"),
        ("train_cfg = dict(max_iters='4')", r"^train_cfg\.max_iters in .* got '4'"),
        ('train_cfg = dict(max_iters=4.5)', r'max_iters in .* must be an integer'),
        ('optim_wrapper = dict(optimizer=dict(lr=-1))', r'optimizer\.lr in .* got -1'),
        ('clip = dict(clip_len=0)', r'clip\.clip_len in '),
        ('train_dataloader = dict(batch_size=None)', r'batch_size in .* got None'),
        ('train_cfg = 4\nsize = 32', None),
    ],
)
def test_values_in_an_edited_config(tmp_path: Path, text: str, message: str | None):
    config = tmp_path / 'edited.py'
    config.write_text(text)
    with pytest.raises(ValueError, match=message) if message else nullcontext():
        check_config(Config.fromfile(config))
