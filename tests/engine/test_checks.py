import shutil
from contextlib import nullcontext
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import create_autospec

import pytest
import torch
from mmaction.registry import MODELS
from mmengine import runner as loops
from mmengine.config import Config, ConfigDict
from mmengine.runner import Runner, TestLoop

from cvrl_mm.engine import ChecksHook
from cvrl_mm.engine.checks import _initial_files, _recipe
from tests.toy import ToyModel, toy_runner

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


def train(
    folder: Path,
    checkpoint: Path | str | None,
    epochs: int,
    resume: bool = True,
    lr: float = 0.1,
    load_from: str | None = None,
    config_file: Path | None = None,
    ann_file: Path | None = None,
) -> int:
    init_cfg = checkpoint and [dict(type='Pretrained', checkpoint=str(checkpoint))]
    model = dict(backbone=dict(init_cfg=init_cfg))
    optim_wrapper = dict(type='OptimWrapper', optimizer=dict(type='SGD', lr=lr))
    train_cfg = dict(type='SeededEpochLoop', max_epochs=epochs)
    cfg = dict(model=model, optim_wrapper=optim_wrapper, train_cfg=train_cfg)
    if ann_file is not None:
        dataset = dict(data_root=str(ann_file.parent), ann_file=ann_file.name)
        cfg['train_dataloader'] = dict(dataset=dataset)
    run = toy_runner(
        folder,
        train_cfg=train_cfg,
        default_hooks=dict(checkpoint=dict(type='AtomicCheckpointHook', interval=1)),
        custom_hooks=[dict(type='ChecksHook')],
        optim_wrapper=optim_wrapper,
        cfg=Config(cfg, filename=config_file),
        resume=resume,
        load_from=load_from,
    )
    run.train()
    return run.epoch


def test_resumes_only_with_the_same_initial_weights(tmp_path: Path, monkeypatch):
    first, second, folder = tmp_path / 'a.pth', tmp_path / 'b.pth', tmp_path / 'run'
    for i, file in enumerate((first, second)):
        torch.save(dict(i=i), file)
    train(folder, first, 1)
    for epochs in (1, 2):  # also if the training is finished and would only be tested again
        with pytest.raises(ValueError, match=r'init_cfg.*=.*a\.pth, but .*b\.pth'):
            train(folder, second, epochs)
    monkeypatch.chdir(tmp_path)
    assert train(folder, 'a.pth', 2) == 2
    assert train(folder, shutil.copy(first, tmp_path / 'copy.pth'), 2) == 2
    with pytest.raises(ValueError, match='none'):  # which would be a random start
        train(folder, None, 3)
    folder = tmp_path / 'other'
    train(folder, first, 1)
    first.rename(tmp_path / 'moved.pth')
    assert train(folder, tmp_path / 'moved.pth', 2) == 2
    for file in (second, shutil.copy(second, tmp_path / 'moved.pth')):  # the first is gone
        with pytest.raises(ValueError, match='other content'):
            train(folder, file, 2)
    for epochs in (2, 3):
        with pytest.raises(ValueError, match='none'):
            train(folder, None, epochs)
        assert train(folder, first, epochs) == epochs  # it is not read


def test_resumes_only_with_the_same_load_from(tmp_path: Path):
    first, second = str(tmp_path / 'a.pth'), str(tmp_path / 'b.pth')
    for file in (first, second):
        torch.save(dict(file=file, state_dict=ToyModel().state_dict()), file)
    train(tmp_path / 'run', None, 1, resume=False, load_from=first)
    (config := tmp_path / 'a.py').write_text(f'load_from = {second!r}\n')
    with pytest.raises(ValueError, match=r'load_from=.*a\.pth, but .*b\.pth'):
        train(tmp_path / 'run', None, 2, config_file=config)
    config.write_text(f'load_from = {first!r}\n')
    (other := tmp_path / 'b.py').write_text("load_from = 'what to resume'\nresume = True\n")
    with pytest.raises(ValueError, match=r'load_from=.*none'):  # which would be a random start
        train(tmp_path / 'run', None, 2)
    for epochs, file in ((2, config), (3, other)):
        assert train(tmp_path / 'run', None, epochs, config_file=file) == epochs
    Path(first).unlink()
    for epochs, file in ((4, config), (5, other), (6, config)):
        assert train(tmp_path / 'run', None, epochs, config_file=file) == epochs
    with pytest.raises(ValueError, match=r'load_from=.*none'):
        train(tmp_path / 'run', None, 7)


def test_resumes_where_load_from_is_not_stated(tmp_path: Path):
    torch.save(dict(state_dict=ToyModel().state_dict()), tmp_path / 'a.pth')
    train(tmp_path / 'run', None, 1, resume=False)
    checkpoint = torch.load(tmp_path / 'run' / 'epoch_1.pth', weights_only=True)
    del checkpoint['meta']['initial_files']['load_from']
    torch.save(checkpoint, tmp_path / 'run' / 'epoch_1.pth')
    (config := tmp_path / 'a.py').write_text(f'load_from = {str(tmp_path / "a.pth")!r}\n')
    assert train(tmp_path / 'run', None, 2, config_file=config) == 2


def test_a_finished_training_is_resumed_only_with_its_config(tmp_path: Path):
    for _ in range(2):
        assert train(tmp_path, None, 1) == 1
    with pytest.raises(ValueError, match='optim_wrapper'):
        train(tmp_path, None, 1, lr=0.2)
    assert train(tmp_path, None, 2, lr=0.2) == 2


def test_a_finished_training_is_resumed_only_with_its_list(tmp_path: Path):
    ann_file = tmp_path / 'train.txt'
    ann_file.write_text('a.mp4 0')
    for epochs in (1, 2, 2):  # more steps are possible
        assert train(tmp_path / 'run', None, epochs, ann_file=ann_file) == epochs
    ann_file.write_text('a.mp4 1')
    for epochs in (2, 3):
        with pytest.raises(ValueError, match='content of train_dataloader'):
            train(tmp_path / 'run', None, epochs, ann_file=ann_file)
    (tmp_path / 'run/epoch_2.pth').rename(tmp_path / 'epoch_2.pth')
    with pytest.raises(ValueError, match='content of train_dataloader'):
        train(tmp_path / 'run', None, 3, ann_file=ann_file)


def test_an_interrupted_training_says_what_has_changed(tmp_path: Path):
    ann_file, folder = tmp_path / 'train.txt', tmp_path / 'run'
    ann_file.write_text('a.mp4 0')
    train(folder, None, 2, ann_file=ann_file)
    (folder / 'epoch_2.pth').unlink()
    for lines, said in (('a.mp4 0', False), ('b.mp4 0', True)):  # such as without a bad video
        ann_file.write_text(lines)
        assert train(folder, None, 2, ann_file=ann_file) == 2
        log = max(folder.glob('*/*.log'), key=lambda path: path.stat().st_mtime_ns).read_text()
        assert ('had another content of train_dataloader' in log) == said
        (folder / 'epoch_2.pth').unlink()


def test_initial_weights_of_other_backbones_are_read(tmp_path: Path):
    (file := tmp_path / 'a.pth').write_bytes(b'weights')
    model = dict(backbone=dict(pretrained=str(file)), neck=dict(pretrained=None))
    ((name, (path, digest)),) = _initial_files(model)
    assert (name, path) == ('model.backbone', str(file))
    assert digest == sha256(b'weights').hexdigest()


def test_only_workers_and_lists_that_have_moved_may_differ():
    dataset = 'dict(ann_file={!r}, data_prefix=dict(video={!r}))'
    text = f'train_dataloader = dict(num_workers={{}}, dataset=[{dataset}])'
    values = (1, 'a', 'v'), (2, 'a', 'v'), (1, 'moved/a', 'v')
    others = (1, 'a', 'other/v'), (1, None, 'v'), (1, 'http://host/a', 'v')
    one, same, moved, *different = (_recipe(text.format(*x)) for x in values + others)
    assert one == same == moved and one not in different


@pytest.mark.parametrize('classes', [('a', 'b'), ('b', 'a')])
def test_a_classifier_is_tested_on_its_own_classes(classes: tuple[str, ...]):
    loop = create_autospec(TestLoop, instance=True)
    loop.dataloader = SimpleNamespace(dataset=SimpleNamespace(metainfo=dict(classes=classes)))
    run: Any = SimpleNamespace(_train_loop=None, _load_from='x.pth', _test_loop=loop)
    checkpoint = dict(meta=dict(dataset_meta=dict(classes=['a', 'b'])))
    refused = pytest.raises(ValueError, match='other classes')
    with nullcontext() if classes == ('a', 'b') else refused:
        ChecksHook().after_load_checkpoint(run, checkpoint)
    run._test_loop = {}  # a validation, which builds no test list
    ChecksHook().after_load_checkpoint(run, checkpoint)


def test_random_and_remote_initial_weights(tmp_path: Path):
    for name, before, after in (('a', None, 'https://host/b'), ('b', 'https://host/a', 'hf://b')):
        train(tmp_path / name, before, 1)
        with pytest.raises(ValueError, match=before or 'none'):
            train(tmp_path / name, after, 2)
