from pathlib import Path

import numpy as np
import pytest
from mmengine.config import ConfigDict

from cvrl_mm.evaluation import retrieval as retrieval_module
from cvrl_mm.evaluation.retrieval import retrieval
from tests.tiny import linear_config


def test_features_of_other_pixels_or_videos_are_not_mixed_in(
    motion_set: Path, lists: Path, checkpoint: str, tmp_path: Path
):
    (own := tmp_path / 'lists').mkdir()
    for path in lists.iterdir():
        (own / path.name).write_text(path.read_text())
    retrieval(linear_config(str(motion_set), str(own)), checkpoint, tmp_path)
    other = linear_config(str(motion_set), str(own))
    other.model.data_preprocessor.std = [1, 1, 1]
    with pytest.raises(ValueError, match='features that differ in source'):
        retrieval(other, checkpoint, tmp_path)
    first, *rest = (own / 'train.txt').read_text().splitlines()
    (own / 'train.txt').write_text('\n'.join([*rest, first]))
    with pytest.raises(ValueError, match='features that differ in source'):
        retrieval(linear_config(str(motion_set), str(own)), checkpoint, tmp_path)


def test_missing_labels_are_found_before_the_work(
    motion_set: Path, lists: Path, checkpoint: str, tmp_path: Path
):
    (own := tmp_path / 'lists').mkdir()
    for path in lists.iterdir():
        (own / path.name).write_text(path.read_text())
    with (own / 'test.txt').open('a') as file:
        file.write('unlabelled.mp4\n')
    out = tmp_path / 'out'
    with pytest.raises(ValueError, match=r'test\.txt, line 17: .*unlabelled\.mp4 has no label'):
        retrieval(linear_config(str(motion_set), str(own)), checkpoint, out)
    assert not list(out.iterdir())


def test_an_untrained_encoder_is_evaluated(motion_set: Path, lists: Path, tmp_path: Path):
    results = []
    for seed in (0, 0, 1):
        cfg = linear_config(str(motion_set), str(lists))
        cfg.randomness = dict(seed=seed)
        assert cfg.model.backbone.init_cfg.checkpoint  # is not looked for
        results.append(retrieval(cfg, 'untrained', tmp_path / f'{len(results)}'))
    assert results[0] == results[1]
    first, last = (np.load(tmp_path / f'{i}/train_mean/feats_00000.npy') for i in (0, 2))
    assert not np.array_equal(first, last)


def test_test_videos_among_the_training_videos_are_reported(tmp_path: Path, monkeypatch):
    lines: list[str] = []
    monkeypatch.setattr(retrieval_module, 'print_log', lambda line, **kwargs: lines.append(line))
    (tmp_path / 'train.txt').write_text('a.mp4 0\nb.mp4 1\n')
    (tmp_path / 'test.txt').write_text('b.mp4 1\nc.mp4 0\nd.mp4 0\n')
    train, test = (
        ConfigDict(ann_file=str(tmp_path / f'{name}.txt'), data_prefix=dict(video='videos'))
        for name in ('train', 'test')
    )
    retrieval_module._warn_about_overlap(train, test)
    assert '1 of 3 videos of ' in lines[0] and 'such as videos/b.mp4' in lines[0]
    test.data_prefix.video = 'other'
    retrieval_module._warn_about_overlap(train, test)
    assert len(lines) == 1
    test.data_prefix.video = train.data_prefix.video = None
    test.delimiter = ','
    (tmp_path / 'test.txt').write_text('b.mp4,1\nc.mp4,0\n')
    retrieval_module._warn_about_overlap(train, test)
    assert '1 of 2 videos of ' in lines[1] and 'such as b.mp4' in lines[1]
