"""The encoders that the package contains."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from cvrl_mm.encoder import files
from cvrl_mm.encoder.encoder import Encoder, load_encoder
from tests.script import run_script

DATA = Path(__file__).parents[1] / 'data'


def moving_waves(encoder: Encoder) -> Tensor:
    """Clips of three waves that move to the right, downwards and not at all, (3, 3, T, H, W)."""
    t, y, x = np.ogrid[: encoder.clip_len, : encoder.size, : encoder.size]
    colours = np.arange(3)[:, None, None, None]
    waves = [np.sin(0.4 * (x * a + y * b) - c * t + colours) for a, b, c in WAVES]
    return torch.from_numpy(np.rint(127.5 + 127.5 * np.stack(waves)).astype(np.uint8))


WAVES = ((1, 0, 0.8), (0, 1, 0.8), (0.7, 0.7, 0))


@pytest.mark.parametrize('name', files.SHIPPED)
def test_the_features_are_those_of_the_machine_that_made_it(name: str):
    """Within the rounding of other processors."""
    encoder = load_encoder(name)
    stored = torch.from_numpy(np.load(DATA / f'{name}_features.npy'))
    feats = encoder.features(moving_waves(encoder))
    torch.testing.assert_close(feats, stored, rtol=1e-3, atol=1e-3)
    path = files.locate_weights(name)
    assert path.stat().st_size < 2e6 and path.with_suffix('.md').is_file()


def test_a_folder_of_the_same_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    load_encoder('tiny').save('tiny/encoder.safetensors')
    for source in ('./tiny', Path('tiny')):
        assert files.locate_weights(source).resolve() == tmp_path / 'tiny/encoder.safetensors'
    assert files.locate_weights('tiny').parent == Path(files.__file__).parent


def test_a_damaged_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(files, '__file__', str(tmp_path / 'files.py'))
    damaged = tmp_path / 'tiny.safetensors'
    with pytest.raises(FileNotFoundError, match=str(damaged)):
        load_encoder('tiny')
    damaged.write_bytes(b'cut')
    with pytest.raises(ValueError, match=str(damaged)):
        load_encoder('tiny')


@pytest.mark.long
def test_the_command_that_makes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run_script(monkeypatch, 'make_encoder.py', '--out', tmp_path, '--videos=24', '--steps=2')
    made, shipped = load_encoder(tmp_path / 'tiny.safetensors'), load_encoder('tiny')
    assert made.clip_input == shipped.clip_input
    assert made.meta['backbone'] == shipped.meta['backbone']
    weights = files.load_weights(tmp_path / 'tiny.safetensors')['state_dict']
    assert {x.dtype for x in weights.values() if x.is_floating_point()} == {torch.float16}
