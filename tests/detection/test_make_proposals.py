import sys
from pathlib import Path

import mmdet
import numpy as np
import pytest
import torch
from mmengine.structures import InstanceData

from cvrl_mm.detection.annotations import load_proposals
from tests.processes import run_program
from tests.script import run_script
from tests.videos import encode

ROW = '0.1,0.2,0.3,0.4,12,7'
# on 64 x 32 pixels; the third is a cat, and the last has too low a score
FOUND = InstanceData(
    bboxes=torch.tensor([[-2.0, 8, 32, 16], [16, 0, 32, 40], [0, 0, 8, 8], [0, 0, 8, 8]]),
    scores=torch.tensor([0.5, 0.75, 1.0, 0.01]),
    labels=torch.tensor([1, 1, 0, 1]),
)


class Detector:
    dataset_meta = dict(classes=('cat', 'person'))


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list:
    def infer(detector: Detector, image: np.ndarray) -> InstanceData:
        assert image.shape == (32, 64, 3)
        return InstanceData(pred_instances=FOUND)

    monkeypatch.setattr('mmdet.apis.init_detector', lambda *args, **kwargs: Detector())
    monkeypatch.setattr('mmdet.apis.inference_detector', infer)
    (tmp_path / 'detector.py').write_text('model = dict()')
    (tmp_path / 'videos').mkdir()
    for name in 'ab':
        encode(tmp_path / 'videos' / f'{name}.mp4', num_frames=45, size=(64, 32))
    (tmp_path / 'rows.csv').write_text(f'a,0901,{ROW}\nb,0900,{ROW}\nb,0950,{ROW}\n')
    files = [tmp_path / name for name in ('videos', 'p.pkl', 'detector.py', 'no.pth', 'rows.csv')]
    return [*files[:4], '--csv', files[4]]


def test_mmdet_is_usable_without_a_compiled_mmcv(arguments: list):
    """In a process of its own, which has not imported the package yet."""
    configs = Path(mmdet.__file__).parent / '.mim/configs'
    arguments[2] = configs / 'faster_rcnn/faster-rcnn_r50_fpn_1x_coco.py'
    script = Path(__file__).parents[2] / 'tools/data/make_proposals.py'
    done = run_program([sys.executable, script, *arguments, '--start', '900'])
    assert done.returncode == 1 and 'no.pth' in done.stderr  # the network has been built


@pytest.mark.parametrize(
    ('more', 'keys'),
    [
        ((), ['a,0901', 'b,0900']),
        (('--seconds', 900, 901), ['a,0900', 'a,0901', 'b,0900', 'b,0901']),
    ],
)
def test_writes_proposals(
    monkeypatch: pytest.MonkeyPatch, arguments: list, more: tuple, keys: list[str]
):
    run_script(monkeypatch, 'data/make_proposals.py', *arguments, '--start', 900, *more)
    proposals = load_proposals(arguments[1])
    assert list(proposals) == keys
    for boxes in proposals.values():
        assert boxes.tolist() == [[0.25, 0, 0.5, 1, 0.75], [0, 0.25, 0.5, 0.5, 0.5]]


def test_another_call_continues(monkeypatch: pytest.MonkeyPatch, arguments: list):
    arguments[1] = arguments[1].with_name('new') / 'p.pkl'
    calls: list[int] = []

    def infer(detector: Detector, image: np.ndarray) -> InstanceData:
        calls.append(len(calls))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return InstanceData(pred_instances=FOUND)

    monkeypatch.setattr('mmdet.apis.inference_detector', infer)
    with pytest.raises(SystemExit):
        run_script(monkeypatch, 'data/make_proposals.py', *arguments, '--start', 900)
    run_script(monkeypatch, 'data/make_proposals.py', *arguments, '--start', 900)
    assert len(calls) == 3 and len(load_proposals(arguments[1])) == 2
    assert [path.name for path in arguments[1].parent.iterdir()] == ['p.pkl']
