from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope
from mmengine.structures import InstanceData

from cvrl_mm.detection.proposals import load_proposals
from tests.script import TOOLS, run_script
from tests.videos import encode

# A detector of mmdet that is small enough to be left untrained
DETECTOR = """
default_scope = 'mmdet'
model = dict(
    type='RetinaNet',
    data_preprocessor=dict(type='DetDataPreprocessor', pad_size_divisor=32),
    backbone=dict(type='ResNet', depth=18, base_channels=4, norm_cfg=dict(type='BN')),
    neck=dict(type='FPN', in_channels=[4, 8, 16, 32], out_channels=8, num_outs=5),
    bbox_head=dict(type='RetinaHead', num_classes=80, in_channels=8, feat_channels=8,
                   stacked_convs=1),
    test_cfg=dict(nms_pre=100, min_bbox_size=0, score_thr=0.0, max_per_img=300,
                  nms=dict(type='nms', iou_threshold=0.5)),
)
test_dataloader = dict(dataset=dict(pipeline=[
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=(128, 64), keep_ratio=True),
    dict(type='PackDetInputs', meta_keys=('img_path', 'ori_shape', 'img_shape', 'scale_factor')),
]))
"""
ROW = '0.1,0.2,0.3,0.4,12,7'


@pytest.fixture
def arguments(tmp_path: Path) -> list[Path]:
    from mmdet.registry import MODELS

    config, checkpoint = tmp_path / 'tiny_retina.py', tmp_path / 'tiny_retina.pth'
    config.write_text(DETECTOR)
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope('mmdet'):
        model = MODELS.build(Config.fromfile(config).model)
    torch.nn.init.zeros_(model.bbox_head.retina_cls.bias)  # scores of 0.5
    names = dict(classes=('person', *(f'thing {i}' for i in range(79))))
    torch.save(dict(state_dict=model.state_dict(), meta=dict(dataset_meta=names)), checkpoint)
    (tmp_path / 'videos').mkdir()
    for name in 'ab':
        encode(tmp_path / 'videos' / f'{name}.mp4', num_frames=45)
    (tmp_path / 'rows.csv').write_text(f'a,0901,{ROW}\nb,0900,{ROW}\nb,0950,{ROW}\n')
    return [tmp_path / name for name in ('videos', 'rows.csv', 'p.pkl')] + [config, checkpoint]


@pytest.mark.parametrize(
    ('more', 'keys'),
    [
        ((), ['a,0901', 'b,0900']),
        (('--seconds', 900, 901), ['a,0900', 'a,0901', 'b,0900', 'b,0901']),
    ],
)
def test_writes_proposals(
    monkeypatch: pytest.MonkeyPatch, arguments: list[Path], more: tuple, keys: list[str]
):
    run_script(monkeypatch, 'data/make_proposals.py', *arguments, '--start', 900, *more)
    proposals = load_proposals(arguments[2])
    assert list(proposals) == keys
    for boxes in proposals.values():
        assert boxes.shape[1] == 5 and (boxes >= 0).all() and (boxes <= 1).all()
    assert sum(map(len, proposals.values())) > 0


def test_a_wrong_start_is_an_error(monkeypatch: pytest.MonkeyPatch, arguments: list[Path]):
    with pytest.raises(SystemExit):
        run_script(monkeypatch, 'data/make_proposals.py', *arguments)
    assert not arguments[2].exists()


def test_people_are_sorted_fractions_of_the_picture(monkeypatch: pytest.MonkeyPatch):
    import runpy

    found = InstanceData(
        bboxes=torch.tensor([[-2.0, 4, 16, 8], [8, 0, 16, 8], [0, 0, 8, 8], [0, 0, 8, 8]]),
        scores=torch.tensor([0.5, 0.75, 1.0, 0.01]),
        labels=torch.tensor([1, 1, 0, 1]),  # a cat, and a person with too low a score
    )
    seen = []

    class Detector:
        dataset_meta = dict(classes=('cat', 'person'))

    def infer(detector: Detector, image: np.ndarray) -> InstanceData:
        seen.append(image)
        return InstanceData(pred_instances=found)

    monkeypatch.setattr('mmdet.apis.inference_detector', infer)
    find_people = runpy.run_path(str(TOOLS / 'data' / 'make_proposals.py'))['find_people']
    image = np.zeros((8, 32, 3), np.uint8) + np.uint8([1, 2, 3])
    boxes = find_people(Detector(), image)
    assert boxes.tolist() == [[0.25, 0, 0.5, 1, 0.75], [0, 0.5, 0.5, 1, 0.5]]
    assert seen[0][0, 0].tolist() == [3, 2, 1]  # BGR
