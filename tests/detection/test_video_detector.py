from pathlib import Path

import numpy as np
import pytest
import torch
from mmaction.registry import DATASETS, MODELS
from mmengine.config import Config

from cvrl_mm.detection.ava_proposals import load_proposals
from cvrl_mm.detection.video_detector import VideoActionDetector
from cvrl_mm.synthetic.ava_movies import write_synthetic_ava

CONFIGS = Path(__file__).parents[2] / 'configs' / 'detection'
NAMES = ('synthetic_ava_fast_rcnn', 'synthetic_ava_faster_rcnn')


@pytest.fixture(scope='module')
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp('ava')
    write_synthetic_ava(root / 'data' / 'synthetic_ava', num_train=1, num_val=1)
    for name in NAMES:
        torch.manual_seed(0)
        model = MODELS.build(Config.fromfile(CONFIGS / f'{name}.py').model)
        model.init_weights()
        torch.save(dict(state_dict=model.state_dict(), meta={}), root / f'{name}.pth')
    return root


@pytest.fixture(autouse=True)
def there(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)


def detector(name: str, **kwargs) -> VideoActionDetector:
    return VideoActionDetector(CONFIGS / f'{name}.py', f'{name}.pth', **kwargs)


def test_a_proposal_network_finds_in_a_video_what_testing_finds():
    ours = detector('synthetic_ava_faster_rcnn')
    assert not ours.needs_people and ours.actions == ['sway', 'bounce', 'turn']
    found = ours.detect('data/synthetic_ava/videos/val_0.mp4', 2)
    cfg = Config.fromfile(CONFIGS / 'synthetic_ava_faster_rcnn.py')
    data = DATASETS.build(cfg.val_dataloader.dataset)
    index = [data.get_data_info(i)['timestamp'] for i in range(len(data))].index(902)
    packed = {key: [value] for key, value in data[index].items()}
    with torch.no_grad():
        expected = ours.model.test_step(packed)[0].pred_instances
    np.testing.assert_allclose(found.boxes, expected.bboxes, atol=1e-6)
    np.testing.assert_allclose(found.scores, expected.scores[:, 1:], atol=1e-6)


def test_an_encoder_is_not_a_detector():
    config = CONFIGS / 'synthetic_ava_fast_rcnn.py'
    with pytest.raises(ValueError, match=r'encoder\.safetensors .*Train a detector first') as error:
        VideoActionDetector(config, 'encoder.safetensors')
    assert 'cvrl convert' not in str(error.value)  # a converted encoder is no detector either


def test_given_boxes_are_what_is_scored():
    ours = detector('synthetic_ava_fast_rcnn')
    people = np.array([[0.1, 0.2, 0.4, 0.8, 0.95], [0.5, 0.1, 0.9, 0.7, 0.9]])
    found = ours.detect('data/synthetic_ava/videos/val_0.mp4', 1, people)
    np.testing.assert_allclose(found.boxes, people[:, :4], atol=1e-6)
    assert found.scores.shape == (2, 3) and (found.scores > 0).all() and (found.scores < 1).all()
    assert ours.detect('data/synthetic_ava/videos/val_0.mp4', 1, people[:0]).boxes.shape == (0, 4)


def test_the_boxes_that_are_scored_are_those_of_testing():
    path = 'data/synthetic_ava/annotations/val_proposals.pkl'
    people = load_proposals(path)['val_0,0901']
    ours = detector('synthetic_ava_fast_rcnn')
    found = ours.detect('data/synthetic_ava/videos/val_0.mp4', 1, people)
    cfg = Config.fromfile(CONFIGS / 'synthetic_ava_fast_rcnn.py')
    data = DATASETS.build(cfg.test_dataloader.dataset)
    frames = {info['img_key']: info for info in map(data.get_data_info, range(len(data)))}
    expected = frames['val_0,0901']['proposals']
    assert len(expected) < len(people)
    np.testing.assert_allclose(found.boxes, expected, atol=1e-6)
    people[:, 4] = [0.1, 0.3, 0.2]
    found = ours.detect('data/synthetic_ava/videos/val_0.mp4', 1, people)
    np.testing.assert_allclose(found.boxes, people[1:2, :4].clip(0, 1), atol=1e-6)
    people[:, :4] += 1  # outside the frame
    assert not len(ours.detect('data/synthetic_ava/videos/val_0.mp4', 1, people).boxes)


def test_what_is_missing_is_named():
    with pytest.raises(ValueError, match='needs person boxes: make them with tools/data'):
        detector('synthetic_ava_fast_rcnn').detect('data/synthetic_ava/videos/val_0.mp4', 1)
    with pytest.raises(FileNotFoundError, match='label map /nowhere does not exist'):
        detector('synthetic_ava_fast_rcnn', labels='/nowhere')
