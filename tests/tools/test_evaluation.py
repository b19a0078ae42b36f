"""The tools that evaluate an encoder by a config: linear_probe, retrieval, three_splits."""

import json
from pathlib import Path

import pytest

from cvrl_cli import evaluation_parser
from cvrl_mm.cli import start_evaluation
from tests.script import run_script
from tests.tiny import save_backbone

CONFIG = str(Path(__file__).parents[2] / 'configs/miniature/linear_motion.py')


@pytest.fixture(scope='module')
def arguments(motion_set: Path, tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    folder = tmp_path_factory.mktemp('run')
    path = folder / 'iter_800.pth'
    save_backbone(path, width=0.25, stage_blocks=(1, 1, 1, 1), conv1_kernel=(3, 5, 5))
    train, test = ((motion_set / f'{name}.txt').read_text() for name in ('train', 'test'))
    (folder / 'train.txt').write_text(train + test)
    (folder / 'test.txt').write_text(test)
    options = ['train_cfg.max_epochs=5']
    for split in ('train', 'test'):
        options.append(f'{split}_dataloader.num_workers=0')
        options.append(f'{split}_dataloader.dataset.data_prefix.video={motion_set}')
        options.append(f'{split}_dataloader.dataset.ann_file={folder}/{split}.txt')
    return [CONFIG, path, '--cfg-options', *options]


def test_linear_probe(arguments: list[object], monkeypatch, capsys):
    run_script(monkeypatch, 'linear_probe.py', *arguments)
    out = ' '.join(capsys.readouterr().out.split())
    assert 'cached: 2 fixed views of each training video' in out
    assert 'not the online protocol' in out and 'the best of 5' in out
    assert (Path(str(arguments[1])).parent / 'iter_800_linear_motion/cached_probe.json').is_file()


def test_retrieval(arguments: list[object], monkeypatch, capsys):
    run_script(monkeypatch, 'retrieval.py', *arguments)
    out = capsys.readouterr().out
    assert 'R@1 ' in out and 'knn_top1 ' in out


@pytest.mark.parametrize(
    ('checkpoint', 'out'),
    [
        ('runs/a/epoch_1.pth', 'runs/a/epoch_1_linear_motion'),
        ('untrained', 'work_dirs/untrained_linear_motion'),
        ('https://x.org/a/enc.pth', 'work_dirs/enc_linear_motion'),
        ('hf://owner/enc', 'work_dirs/enc_linear_motion'),
    ],
)
def test_the_results_lie_beside_the_checkpoint(checkpoint: str, out: str):
    options = ['--cfg-options', 'model.cls_head.num_classes=3']
    args = evaluation_parser(None).parse_args([CONFIG, checkpoint, *options])
    config, folder = start_evaluation(args, 'model')
    assert config.model.cls_head.num_classes == 3 and folder == Path(out)


@pytest.mark.parametrize(
    ('option', 'needed', 'message'),
    [
        ('model', 'model', "'model'"),
        ('test_dataloder.num_workers=0', 'model', 'test_dataloader'),
        ('train_cfg.max_epochs=1', 'nothing_like_it', 'nothing_like_it'),
    ],
)
def test_mistakes_are_named(option: str, needed: str, message: str):
    args = evaluation_parser(None).parse_args([CONFIG, 'untrained', '--cfg-options', option])
    with pytest.raises(ValueError, match=message):
        start_evaluation(args, needed)


def test_three_splits(tmp_path: Path, monkeypatch, capsys):
    def finish(split: int, time: str, **metrics: float) -> None:
        (tmp_path / f'{split}' / time).mkdir(parents=True)
        (tmp_path / f'{split}' / time / f'{time}.json').write_text(json.dumps(metrics))

    for split, accuracy in enumerate((0.1, 0.9, 0.94)):
        finish(split, '20260102_000000', **{'acc/top1': accuracy})
    finish(0, '20260103_000000', **{'acc/top1': 0.92})  # the last test counts,
    finish(0, '20260104_000000', loss=0.3)  # and not a training
    (tmp_path / '0/20260104_000000/scalars.json').write_text('{"acc/top1": 0.2}\n')
    folders = [tmp_path / f'{split}' for split in range(3)]
    run_script(monkeypatch, 'three_splits.py', *folders)
    assert 'split 1 92.00%, mean of 3 splits 92.00%' in capsys.readouterr().out
    for third, message in ((tmp_path / 'empty', 'empty has no result'), (folders[0], 'different')):
        with pytest.raises(SystemExit, match=message):
            run_script(monkeypatch, 'three_splits.py', *folders[:2], third)
