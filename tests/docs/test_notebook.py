"""The notebook runs from top to bottom, and its encoder can be shared."""

from pathlib import Path

import pytest
import torch

import cvrl_cli
from cvrl_mm import load_encoder
from tests.hub import serve_hub

nbformat = pytest.importorskip('nbformat')
nbclient = pytest.importorskip('nbclient')
pytest.importorskip('ipykernel')
ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / 'docs/notebooks/own_videos.ipynb'
SHORT = '\nNUM_VIDEOS, FOLDER = 48, {!r}'
LENGTHS = {'hours=MINUTES / 60': 'steps=8, workers=0', 'epochs=20': 'steps=4, workers=0'}


def with_settings(folder: Path) -> list:
    """The cells of the notebook, with few videos and a short training."""
    cells = nbformat.read(NOTEBOOK, 4).cells
    (parameters,) = (cell for cell in cells if 'parameters' in cell.metadata.get('tags', []))
    parameters.source += SHORT.format(str(folder))
    for long, short in LENGTHS.items():
        (cell,) = (cell for cell in cells if long in cell.source)
        cell.source = cell.source.replace(long, short)
    return cells


@pytest.mark.long
def test_it_runs_and_its_encoder_is_shared(tmp_path, monkeypatch):
    monkeypatch.setenv('PYTHONPATH', str(ROOT))
    monkeypatch.setenv('IPYTHONDIR', str(tmp_path / 'ipython'))
    notebook = nbformat.read(NOTEBOOK, 4)
    for cell in notebook.cells:
        assert not cell.get('outputs') and not cell.get('execution_count')  # as in git
    notebook.cells = with_settings(tmp_path / 'work')
    where = dict(metadata=dict(path=str(tmp_path)))
    nbclient.NotebookClient(notebook, timeout=240, resources=where).execute()
    shown = [output for cell in notebook.cells for output in cell.get('outputs', [])]
    texts = [output.data.get('text/plain', '') for output in shown if 'data' in output]
    for bar in ('Making videos 48/48', 'Encoding all videos 48/48', 'Training 8/8'):
        kind = bar.split()[0]
        seen = [text for text in texts if text.startswith(kind) and '/' in text]
        assert seen[0].startswith(bar) and len(seen) == 1 + (kind == 'Training'), kind
    assert sum('image/png' in output.get('data', {}) for output in shown) == 6
    out = tmp_path / 'work/encoder'
    with serve_hub(tmp_path / 'hf') as hub:
        cvrl_cli.main(['push', str(out), 'me/mine'])
        assert str(tmp_path).encode() not in b''.join(hub.repos['me/mine'].values())
        shared = load_encoder('hf://me/mine')
    encoder = load_encoder(out)
    clips = torch.randint(0, 256, (1, 3, 8, 48, 48), dtype=torch.uint8)
    assert torch.equal(shared.features(clips), encoder.features(clips))
