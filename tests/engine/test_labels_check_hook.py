from pathlib import Path
from types import SimpleNamespace

import pytest
from mmengine import runner as loops
from mmengine.config import Config, ConfigDict

from cvrl_mm.engine import LabelsCheckHook

CONFIGS = Path(__file__).parents[2] / 'configs'


def runner(tmp_path: Path, num_classes: int | None = 3, **lists: str) -> SimpleNamespace:
    """A run that reads training and test videos; the validation is not part of it."""
    cfg = {}
    for split in ('train', 'val', 'test'):
        ann_file = tmp_path / f'{split}.txt'
        ann_file.write_text(lists.get(split, 'a.mp4 0\nb.mp4 2\n'))
        dataset = dict(type='VideoListDataset', ann_file=str(ann_file))
        cfg[f'{split}_dataloader'] = dict(dataset=dataset)
    head = SimpleNamespace() if num_classes is None else SimpleNamespace(num_classes=num_classes)
    return SimpleNamespace(
        model=SimpleNamespace(cls_head=head),
        cfg=ConfigDict(cfg),
        _train_loop=object.__new__(loops.EpochBasedTrainLoop),
        _val_loop=dict(type='ValLoop'),
        _test_loop=object.__new__(loops.TestLoop),
    )


@pytest.mark.parametrize('split', ['train', 'test'])
@pytest.mark.parametrize(
    ('lines', 'seen'),
    [
        ('a.mp4 0\nb.mp4\n', 'line 2: b.mp4 has no label'),
        ('a.mp4 3\n', 'line 1: a.mp4 has the label 3; num_classes=3'),
    ],
)
def test_a_wrong_label_is_named_with_its_list(tmp_path: Path, split: str, lines: str, seen: str):
    with pytest.raises(ValueError, match=rf'{split}\.txt, {seen}'):
        LabelsCheckHook().before_run(runner(tmp_path, **{split: lines}))


def test_labels_of_the_classes_pass(tmp_path: Path):
    LabelsCheckHook().before_run(runner(tmp_path))


def test_only_what_a_classifier_reads_is_checked(tmp_path: Path):
    LabelsCheckHook().before_run(runner(tmp_path, val='a.mp4\n'))
    LabelsCheckHook().before_run(runner(tmp_path, num_classes=None, train='a.mp4\n'))
    other = runner(tmp_path, train='a.mp4\n')
    other.cfg.train_dataloader.dataset.type = 'VideoDataset'
    LabelsCheckHook().before_run(other)
    LabelsCheckHook().before_run(SimpleNamespace(model=SimpleNamespace(backbone=None)))


def test_classifiers_have_the_hook():
    config = Config.fromfile(CONFIGS / 'linear/linear_ucf101_split1.py')
    assert config.default_hooks.labels.type == 'LabelsCheckHook'
