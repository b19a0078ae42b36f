from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from mmengine.logging import MMLogger
from mmengine.structures import InstanceData

from cvrl_mm.detection import person_proposals
from cvrl_mm.detection.ava_annotations import ActionRow
from cvrl_mm.detection.person_proposals import (
    find_people,
    make_proposals,
    person_class,
    wanted_key_frames,
)
from tests.videos import encode

CAT, PERSON = 0, 1


@pytest.fixture
def detector(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Finds two people and a cat in any picture of 64x32, and notes the pictures."""
    detector = SimpleNamespace(dataset_meta=dict(classes=('cat', 'person')), seen=[])

    def infer(model: SimpleNamespace, image: np.ndarray) -> SimpleNamespace:
        model.seen.append(image)
        found = InstanceData(
            bboxes=torch.tensor([[0.0, 0, 32, 16], [16, 8, 48, 40], [0, 0, 64, 32], [0, 0, 1, 1]]),
            scores=torch.tensor([0.5, 0.75, 0.9, 0.01]),
            labels=torch.tensor([PERSON, PERSON, CAT, PERSON]),
        )
        return SimpleNamespace(pred_instances=found)

    monkeypatch.setattr(person_proposals, 'inference_detector', infer)
    return detector


def test_people_alone_as_fractions_surest_first(detector: SimpleNamespace):
    image = np.zeros((32, 64, 3), np.uint8)
    image[..., 0] = 200  # red
    boxes = find_people(detector, image, PERSON, min_score=0.05)
    np.testing.assert_allclose(boxes, [[0.25, 0.25, 0.75, 1, 0.75], [0, 0, 0.5, 0.5, 0.5]])
    assert detector.seen[0][0, 0].tolist() == [0, 0, 200]  # BGR, as mmdet takes pictures


def test_every_second_of_every_video(detector: SimpleNamespace, tmp_path: Path):
    for name, frames in (('a.mp4', 75), ('b.mkv', 30)):
        encode(tmp_path / name, num_frames=frames)
    done = []
    proposals = make_proposals(
        detector, sorted(tmp_path.iterdir()), start=900, on_progress=lambda *p: done.append(p)
    )
    assert list(proposals) == ['a,0900', 'a,0901', 'a,0902', 'b,0900']
    assert done[-1] == (4, 4)
    # the bar of the video stands at the number of the frame
    assert [int(image[0].mean(1).argmax()) for image in detector.seen] == [0, 30, 60, 0]


def test_wanted_key_frames_alone(detector: SimpleNamespace, tmp_path: Path):
    encode(tmp_path / 'a.mp4', num_frames=75)
    videos = [tmp_path / 'a.mp4']
    assert list(make_proposals(detector, videos, [('a', 2)])) == ['a,0002']
    with pytest.raises(ValueError, match=r'1 of 2 wanted key frames .* is a,0902'):
        make_proposals(detector, videos, [('a', 2), ('a', 902)])


def test_a_damaged_spot_costs_one_key_frame(
    detector: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    encode(tmp_path / 'a.mp4', num_frames=75)
    said, damaged = [], {1}
    monkeypatch.setattr(MMLogger.get_current_instance(), 'warning', said.append)
    read = person_proposals.read_frames

    def read_damaged(path: str, seconds: list[int]) -> list[np.ndarray]:
        if damaged.issuperset(seconds):
            raise RuntimeError(f'Cannot read the video {path}: Invalid data')
        return read(path, seconds)

    monkeypatch.setattr(person_proposals, 'read_frames', read_damaged)
    done = []
    proposals = make_proposals(
        detector, [tmp_path / 'a.mp4'], on_progress=lambda *p: done.append(p)
    )
    assert list(proposals) == ['a,0000', 'a,0002'] and done[-1] == (3, 3)
    assert said == [f'Skipped a,0001: Cannot read the video {tmp_path}/a.mp4: Invalid data']
    damaged |= {0, 2}
    with pytest.raises(RuntimeError, match='None of 3 key frames can be decoded'):
        make_proposals(detector, [tmp_path / 'a.mp4'])


def test_mistakes_are_named(detector: SimpleNamespace, tmp_path: Path):
    with pytest.raises(ValueError, match=r'no\.mp4 is not a readable video'):
        make_proposals(detector, [tmp_path / 'no.mp4'])
    detector.dataset_meta['classes'] = ('cat', 'dog')
    with pytest.raises(ValueError, match=r"no class 'person' among its classes: .*'cat', 'dog'"):
        person_class(detector)


def test_key_frames_are_chosen_by_annotations_and_by_a_range():
    videos = [Path('a.mp4'), Path('b.mp4')]
    rows = [ActionRow('a', 902, np.array([0, 0, 1, 1]), 1, 0)]
    assert wanted_key_frames(videos, None, None) is None
    assert wanted_key_frames(videos, rows, None) == {('a', 902)}
    assert wanted_key_frames(videos, rows, (901, 902)) == {('a', 901), ('a', 902)}
    assert wanted_key_frames(videos, None, (902, 902)) == {('a', 902), ('b', 902)}
    with pytest.raises(ValueError, match='first second, 903, comes after the last one, 902'):
        wanted_key_frames(videos, rows, (903, 902))
