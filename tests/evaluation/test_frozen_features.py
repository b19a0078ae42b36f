from pathlib import Path

import pytest
from mmengine.config import ConfigDict

from cvrl_mm.evaluation.frozen_features import (
    check_labels,
    default_out,
    frozen_recognizer,
    video_list,
)
from tests.tiny import linear_config


def test_features_lie_beside_the_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    config = 'configs/linear/linear_k400.py'
    assert default_out(config, 'runs/a/epoch_5.pth') == Path('runs/a/epoch_5_linear_k400')
    assert default_out(config, 'untrained') == Path('work_dirs/untrained_linear_k400')
    for address in ('https://x.org/a/enc.pth', 'hf://owner/enc'):
        assert default_out(config, address) == Path('work_dirs/enc_linear_k400')
    (tmp_path / 'export' / 'sub').mkdir(parents=True)
    for folder, checkpoint in (('export', '.'), ('export/sub', '..')):
        monkeypatch.chdir(tmp_path / folder)
        assert default_out(config, checkpoint) == tmp_path / 'export_linear_k400'


@pytest.mark.parametrize(
    ('num_classes', 'complaint'),
    [
        (None, r'line 2: b\.mp4 has no label; correct'),
        (3, r'a\.mp4 has the label 7; num_classes=3'),
    ],
)
def test_labels_are_checked(tmp_path: Path, num_classes: int | None, complaint: str):
    (tmp_path / 'list.txt').write_text('a.mp4 7\nb.mp4\n')
    dataset = ConfigDict(ann_file=str(tmp_path / 'list.txt'))
    with pytest.raises(ValueError, match=complaint):
        check_labels(dataset, num_classes)
    check_labels(ConfigDict(**dataset, multi_class=True), num_classes)


def test_labels_after_another_delimiter_are_read(tmp_path: Path):
    (tmp_path / 'list.txt').write_text('a b.mp4,7\nc.mp4,2\n')
    dataset = ConfigDict(
        ann_file=str(tmp_path / 'list.txt'), delimiter=',', data_prefix=dict(video='videos')
    )
    assert check_labels(dataset, 8) == {2, 7}
    assert video_list(dataset)[0] == dict(filename='videos/a b.mp4', label=7)
    dataset.data_prefix.video = None
    assert video_list(dataset)[0]['filename'] == 'a b.mp4'


def test_equal_weights_in_two_files_are_the_same_source(
    motion_set: Path, lists: Path, checkpoint: str, tmp_path: Path
):
    copy = tmp_path / 'copy.pth'
    copy.write_bytes(Path(checkpoint).read_bytes())
    sources = [
        frozen_recognizer(linear_config(str(motion_set), str(lists)), name)[1]
        for name in (checkpoint, str(copy), 'untrained')
    ]
    assert sources[0] == sources[1] != sources[2]
