from pathlib import Path

import cv2
import pytest
import torch
from mmaction.registry import MODELS
from mmengine.config import Config

from cvrl_mm.synthetic.ava_movies import write_synthetic_ava
from tests.script import run_script

CONFIGS = Path(__file__).parents[2] / 'configs' / 'detection'


@pytest.fixture
def movie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_synthetic_ava(Path('data/synthetic_ava'), num_train=1, num_val=1)
    return Path('data/synthetic_ava/videos/val_0.mp4')


def untrained(name: str) -> tuple[Path, str]:
    config = CONFIGS / f'{name}.py'
    model = MODELS.build(Config.fromfile(config).model)
    model.init_weights()
    torch.save(dict(state_dict=model.state_dict(), meta={}), f'{name}.pth')
    return config, f'{name}.pth'


def frames_of(path: Path) -> int:
    return int(cv2.VideoCapture(str(path)).get(cv2.CAP_PROP_FRAME_COUNT))


def test_from_the_video_alone(movie: Path, monkeypatch: pytest.MonkeyPatch):
    run_script(
        monkeypatch,
        'detect_video.py',
        movie,
        *untrained('synthetic_ava_faster_rcnn'),
        '--threshold',
        0,
    )
    assert frames_of(movie.with_name('val_0_actions.mp4')) == 120


def test_with_given_boxes(
    movie: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    arguments = [movie, *untrained('synthetic_ava_fast_rcnn'), '--out', 'out.mp4']
    with pytest.raises(SystemExit):
        run_script(monkeypatch, 'detect_video.py', *arguments)
    assert 'needs person boxes: make them with' in capsys.readouterr().err
    proposals = 'data/synthetic_ava/annotations/val_proposals.pkl'
    run_script(
        monkeypatch,
        'detect_video.py',
        *arguments,
        *('--proposals', proposals, '--start', 900, '--threshold', 0),
    )
    # two people and, with too low a score, a third box in each of the seconds 901 to 903
    assert 'out.mp4: 6 boxes drawn' in capsys.readouterr().out
    assert frames_of(Path('out.mp4')) == 120


def test_boxes_of_nothing_in_the_video_are_a_mistake(
    movie: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    proposals = 'data/synthetic_ava/annotations/val_proposals.pkl'
    other = movie.rename(movie.with_name('other.mp4'))
    arguments = ['no_config.py', 'no.pth', '--proposals', proposals]
    with pytest.raises(SystemExit, match='2'):
        run_script(monkeypatch, 'detect_video.py', other, *arguments, '--start', 900)
    said = ' '.join(capsys.readouterr().err.split())
    assert "no key 'other,TTTT' for this video but 3 others, such as ['val_0,0901'" in said
    other.rename(movie)
    for start, seconds in (0, '0 to 4'), (904, '904 to 908'):
        with pytest.raises(SystemExit, match='2'):
            run_script(monkeypatch, 'detect_video.py', movie, *arguments, '--start', start)
        said = ' '.join(capsys.readouterr().err.split())
        assert f"'val_0,0901' to 'val_0,0903', but the video covers the seconds {seconds}" in said
