from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope

from cvrl_mm.detection.ava_proposals import load_proposals
from tests.script import run_script
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


@pytest.fixture
def detector(tmp_path: Path) -> tuple[Path, Path]:
    from mmdet.registry import MODELS

    config = tmp_path / 'tiny_retina.py'
    config.write_text(DETECTOR)
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope('mmdet'):
        model = MODELS.build(Config.fromfile(config).model)
    names = dict(classes=tuple(['person'] + [f'thing {i}' for i in range(79)]))
    checkpoint = tmp_path / 'tiny_retina.pth'
    torch.save(dict(state_dict=model.state_dict(), meta=dict(dataset_meta=names)), checkpoint)
    return config, checkpoint


def test_writes_proposals_of_a_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, detector: tuple, capsys: pytest.CaptureFixture
):
    (tmp_path / 'videos').mkdir()
    for name in 'ab':
        encode(tmp_path / 'videos' / f'{name}.mp4', num_frames=45)
    (tmp_path / 'videos' / 'a.json').write_text('{}')
    out = tmp_path / 'new' / 'folder' / 'p.pkl'
    run_script(
        monkeypatch,
        'data/make_proposals.py',
        tmp_path / 'videos',
        out,
        *detector,
        *('--start', 900, '--min-score', 0),
    )
    proposals = load_proposals(out)
    assert list(proposals) == ['a,0900', 'a,0901', 'b,0900', 'b,0901']
    boxes = proposals['a,0900']
    assert len(boxes) > 0 and boxes.shape[1] == 5
    assert (boxes >= 0).all() and (boxes[:, :4] <= 1).all() and boxes[:, 2].max() > 0.6
    assert f'{sum(map(len, proposals.values()))} boxes in 4 key frames' in capsys.readouterr().out


def test_a_video_that_lacks_a_wanted_key_frame_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, detector: tuple, capsys: pytest.CaptureFixture
):
    encode(tmp_path / 'a.mp4')
    (tmp_path / 'rows.csv').write_text('a,0902,0.1,0.2,0.3,0.4,12,7\n')
    with pytest.raises(SystemExit):
        run_script(
            monkeypatch,
            'data/make_proposals.py',
            tmp_path / 'a.mp4',
            tmp_path / 'p.pkl',
            *detector,
            *('--csv', tmp_path / 'rows.csv'),
        )
    assert '1 of 1 wanted key frames are in none of the videos' in capsys.readouterr().err
    assert not (tmp_path / 'p.pkl').exists()


def test_an_out_that_cannot_be_written_is_told_before_the_detector_is_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture
):
    encode(tmp_path / 'a.mp4')
    (tmp_path / 'folder').mkdir()
    for out, said in (('folder', 'is a folder; name a file'), ('a.mp4/p.pkl', 'a.mp4')):
        arguments = [tmp_path / 'a.mp4', tmp_path / out, 'no_config.py', 'no.pth']
        with pytest.raises(SystemExit):
            run_script(monkeypatch, 'data/make_proposals.py', *arguments)
        error = capsys.readouterr().err
        assert said in error and 'no_config' not in error


def test_a_folder_without_videos_is_a_mistake(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture
):
    (tmp_path / 'a.json').write_text('{}')
    arguments = [tmp_path, tmp_path / 'p.pkl', 'no_config.py', 'no.pth']
    with pytest.raises(SystemExit):
        run_script(monkeypatch, 'data/make_proposals.py', *arguments)
    assert 'There is no video in ' in capsys.readouterr().err
