import shutil
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from mmaction.registry import MODELS
from mmengine import runner as loops
from mmengine.config import Config, ConfigDict
from mmengine.runner import Runner

from cvrl_mm.engine import ChecksHook
from cvrl_mm.engine.checks import rate_advice
from cvrl_mm.models.weights import check_fit
from tests.toy import ToyData, ToyModel, toy_runner

CONFIGS = Path(__file__).parents[2] / 'configs'


class Contrastive(ToyModel):
    def __init__(self) -> None:
        super().__init__()
        self.cls_head = torch.nn.Identity()
        self.cls_head.equal_batches = False


def contrastive(folder: Path, **kwargs: object) -> Runner:
    hooks = [dict(type='ChecksHook')]
    return toy_runner(folder, model=Contrastive(), custom_hooks=hooks, **kwargs)


@pytest.mark.parametrize(
    'loader',
    [
        dict(length=3, batch_size=4, drop_last=True),  # no batch
        dict(length=0, batch_size=4),
        dict(length=3, batch_size=1),  # no negatives
        dict(length=9, batch_size=4),
    ],
)
def test_refuses_batches_without_negatives(loader: dict, tmp_path: Path):
    with pytest.raises(ValueError, match='videos'):
        contrastive(tmp_path, **loader).train()
    assert not list(tmp_path.glob('*.pth'))


@pytest.mark.parametrize(('length', 'drop_last'), [(9, True), (10, True), (10, False)])
def test_tells_the_head_whether_batches_have_one_size(length, drop_last, tmp_path: Path):
    run = contrastive(tmp_path, length=length, drop_last=drop_last)
    run.train()
    assert run.epoch == 2 and run.model.cls_head.equal_batches == drop_last


def test_an_endless_sampler_has_no_smaller_batch(tmp_path: Path):
    given: Any = dict(train_cfg=dict(type='IterBasedTrainLoop', max_iters=3))
    given['train_dataloader'] = dict(
        dataset=ToyData(9),
        batch_size=4,
        sampler=dict(type='InfiniteSampler'),
        collate_fn=dict(type='default_collate'),
    )
    run = contrastive(tmp_path, **given)
    run.train()
    assert run.iter == 3 and run.model.cls_head.equal_batches


def classifier(tmp_path: Path, num_classes: int | None = 3, **lists: str) -> SimpleNamespace:
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
        _resume=False,
        _load_from=None,
        _train_loop=object.__new__(loops.EpochBasedTrainLoop),
        _val_loop=dict(type='ValLoop'),
        _test_loop=object.__new__(loops.TestLoop),
    )


@pytest.mark.parametrize('split', ['train', 'test'])
@pytest.mark.parametrize('lines', ['a.mp4 0\nb.mp4\n', 'a.mp4 3\n'])
def test_a_wrong_label_is_named_with_its_list(tmp_path: Path, split: str, lines: str):
    with pytest.raises(ValueError, match=rf'{split}\.txt'):
        ChecksHook().before_run(classifier(tmp_path, **{split: lines}))


def test_lists_that_number_the_classes_differently_are_refused(tmp_path: Path):
    run = classifier(tmp_path)
    test = run.cfg.test_dataloader.dataset
    (tmp_path / 'test').mkdir()
    test.ann_file = shutil.copy(test.ann_file, tmp_path / 'test')
    (tmp_path / 'classes.txt').write_text('a\nb\nc\n')
    for names, refused in (('a \nb\n', False), ('b\nc\n', True)):
        (tmp_path / 'test/classes.txt').write_text(names)
        with pytest.raises(ValueError, match='differently') if refused else nullcontext():
            ChecksHook().before_run(run)


def test_only_what_a_classifier_reads_is_checked(tmp_path: Path):
    ChecksHook().before_run(classifier(tmp_path))
    ChecksHook().before_run(classifier(tmp_path, val='a.mp4\n'))
    ChecksHook().before_run(classifier(tmp_path, num_classes=None, train='a.mp4\n'))
    other = classifier(tmp_path, train='a.mp4\n')
    other.cfg.train_dataloader.dataset.type = 'VideoDataset'
    ChecksHook().before_run(other)
    ChecksHook().before_run(SimpleNamespace(_train_loop=None, model=SimpleNamespace(backbone=None)))


@pytest.mark.parametrize('name', ['linear/linear_ucf101_split1.py', 'baselines/supervised_k400.py'])
def test_refuses_a_head_of_another_width(name: str):
    config = Config.fromfile(CONFIGS / name)
    assert config.default_hooks.checks.type == 'ChecksHook'
    config.model.backbone.update(depth=18, width=0.125, init_cfg=None)
    with pytest.raises(ValueError, match='in_channels=2048'):
        ChecksHook().before_run(SimpleNamespace(_train_loop=None, model=MODELS.build(config.model)))


def test_a_head_without_weights_gives_features():
    """As MMAction2's clip_feature_extraction.py has it, from a checkpoint with another head."""
    backbone = dict(type='R3DSlow', depth=18, width=0.125)
    head = dict(type='FeatureHead', average_clips='prob')
    model = MODELS.build(dict(type='Recognizer3D', backbone=backbone, cls_head=head))
    run: Any = SimpleNamespace(_train_loop=None, model=model)
    ChecksHook().before_run(run)
    state = model.state_dict() | {'cls_head.projection.0.weight': torch.zeros(4, 4)}
    check_fit(model, dict(state_dict=state), 'a.pth')


@pytest.mark.parametrize(
    ('size', 'ranks', 'steps', 'enable', 'rate'),
    [(128, 8, 1, False, ''), (12, 1, 1, False, '0.375'), (12, 1, 1, True, ''), (16, 8, 2, 1, '8')],
)
def test_the_learning_rate_is_for_the_videos_per_step(size, ranks, steps, enable, rate):
    config = Config(
        dict(
            optim_wrapper=dict(optimizer=dict(lr=32), accumulative_counts=steps),
            auto_scale_lr=dict(base_batch_size=1024, enable=enable),
            train_dataloader=dict(batch_size=size),
        )
    )
    advice = rate_advice(config, ranks)
    assert f'lr={rate} ' in advice if rate else not advice
