import json
import multiprocessing as mp
import shutil
from pathlib import Path
from types import SimpleNamespace

import mmengine.config.config
import numpy as np
import pytest
import torch
from mmaction.registry import MODELS
from mmengine.config import Config
from mmengine.logging import MessageHub, print_log

import cvrl_mm
from cvrl_mm.evaluation.measures import effective_rank
from cvrl_mm.options import FinetuneOptions, Options
from cvrl_mm.own_videos import train
from cvrl_mm.own_videos.folder import claim, write_report
from cvrl_mm.own_videos.report import probe
from cvrl_mm.preparation import check
from cvrl_mm.synthetic.motion import write_motion_videos
from tests.own_videos.folder import small_encoder
from tests.processes import exit_codes
from tests.ranks import start_ranks
from tests.script import run_script

# The smallest training that goes through all stages: 8 steps, after those that measure the time
QUICK = dict(hours=1e-6, size=32, clip_len=4, batch_size=4, workers=0, seed=1)
EVIL = """$A ('");__import__("os").system("touch${IFS}PWNED")#"""


@pytest.fixture(scope='module')
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 videos of 3 persons in two folders, a broken one and a copy; a name has code."""
    root = tmp_path_factory.mktemp('own')
    write_motion_videos(root / 'set', num_train=24, num_test=1)
    for i, path in enumerate(sorted((root / 'set/videos').glob('train*.mp4'))):
        folder = root / EVIL / ('left' if i < 12 else 'right')
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / f'{path.stem}_p{i % 3}.mp4')
    (root / EVIL / 'left/broken.mp4').write_bytes(b'no video')
    shutil.copy(root / EVIL / 'left/train_00000_p0.mp4', root / EVIL / 'right/copy.mp4')
    return root / EVIL


@pytest.fixture(scope='module')
def out(videos: Path) -> Path:
    return cvrl_mm.pretrain(videos, videos.parent / f'out{EVIL}', **QUICK)


@pytest.fixture
def copied(out: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(out, tmp_path / 'out'))


def test_everything_is_written(out: Path, videos: Path):
    encoder = cvrl_mm.load_encoder(out)
    assert (encoder.clip_len, encoder.size) == (4, 32)
    clips = encoder.transform(next(videos.glob('left/train*')))
    assert encoder.features(clips).shape == (10, 128)
    saved = np.load(out / 'features.npz')
    assert saved['feats'].shape == (24, 128) and len(set(saved['names'])) == 24
    assert not np.allclose(saved['feats_before'], saved['feats'])
    *_, ranks = json.loads((out / 'report.json').read_text())
    for when, key in (('before training', 'feats_before'), ('after training', 'feats')):
        assert ranks[when] == pytest.approx(
            effective_rank(torch.from_numpy(saved[key]), centred=False), rel=1e-4
        )
    for name in ('index.html', 'curves.png', 'config.py', 'videos.tsv'):
        assert (out / name).stat().st_size > 100, name
    report = (out / 'report.md').read_text()
    for text in (
        '24 videos, 5 of them held out',
        '| linear accuracy, groups apart',
        '3 groups by the pattern _p([0-9]+)',
        '| clips that find the other',
    ):
        assert text in report
    assert 'started from the encoder of this package' in report
    starts = [cvrl_mm.load_encoder(start) for start in (out / 'start.safetensors', 'tiny')]
    first, shipped = (start.backbone.conv1.conv.weight for start in starts)
    torch.testing.assert_close(first, shipped)
    rows = next((out / 'training').glob('*/vis_data/scalars.json')).read_text().splitlines()
    watched = [row for row in map(json.loads, rows) if 'representation/clip_retrieval' in row]
    assert [row['step'] for row in watched] == list(range(1, 9))
    assert 'representation/knn_top1' in watched[0]  # by folder
    assert not list(videos.parent.rglob('PWNED')) and not Path('PWNED').exists()


def test_videos_that_the_training_has_not_used_are_probed(
    videos: Path, copied: Path, tmp_path: Path
):
    """With the clips of the training, even if the config has been edited since."""
    out = copied
    config = (out / 'config.py').read_text()
    (out / 'config.py').write_text(config.replace('\nsize = 32\n', '\nsize = 96\n'))
    assert (out / 'config.py').read_text() != config
    names = np.load(out / 'features.npz')['names'].tolist()
    labels = [f'{name} {"a" if i < 12 else "b"}\n' for i, name in enumerate(names)]
    (tmp_path / 'train.txt').write_text(''.join(labels[:8] + labels[16:]))
    for i in (8, 15):
        shutil.copy(videos / names[i], tmp_path / f'{i}.mp4')
    for lines in (labels[8] + labels[15], '8.mp4 a\n15.mp4 b\n'):
        (tmp_path / 'test.txt').write_text(lines)
        results, notes = probe(out, tmp_path / 'train.txt', tmp_path / 'test.txt')
        found = [m.value for each in results.values() for m in each]
        if 'encoded' not in notes[0]:
            expected = found
    assert found == expected and '2 videos are not of the training' in notes[0]


def test_a_finished_training_is_left_as_it_is(out: Path):
    before = (out / 'encoder.safetensors').stat().st_mtime_ns
    assert cvrl_mm.pretrain(out=out) == out
    assert (out / 'encoder.safetensors').stat().st_mtime_ns == before


def test_a_finished_training_can_be_made_longer(videos: Path, out: Path, copied: Path, monkeypatch):
    """By its config, or by an option of its length alone; the others stay as they were."""

    def write_results(self, folder: Path, cfg: Config, *others: object) -> None:
        write_report(folder, [f'{cfg.train_cfg.max_iters} steps'])

    monkeypatch.setattr(train.Task, 'write_results', write_results)
    config, report = copied / 'config.py', copied / 'report.md'
    config.write_text(config.read_text().replace('max_iters=8', 'max_iters=10'))
    cvrl_mm.pretrain(videos, copied, **QUICK)
    assert train.last_checkpoint(Config.fromfile(config)) == (10, copied / 'training/iter_10.pth')
    files = sorted((copied / 'training').glob('*/vis_data/scalars.json'))
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    rates = {row['step']: row['lr'] for row in rows if 'lr' in row}
    assert rates[9] > rates[8]  # of a cosine over 10 steps, in place of one over 8
    assert '10 steps' in report.read_text()  # the results are replaced
    cvrl_mm.pretrain(out=copied, steps=12)
    command = json.loads((copied / 'command.json').read_text())
    assert command == json.loads((out / 'command.json').read_text()) | dict(hours=None, steps=12)
    for shorter, steps in (dict(steps=9), 9), (dict(hours=1e-9), 8):
        with pytest.raises(ValueError, match=f'{steps} steps'):
            cvrl_mm.pretrain(out=copied, **shorter)
    assert json.loads((copied / 'command.json').read_text()) == command
    config.write_text(config.read_text().replace('max_iters=12', 'max_iters=9'))
    report.unlink()
    cvrl_mm.pretrain(out=copied)
    assert '12 steps' in report.read_text()  # as trained
    assert not (out / 'training/iter_10.pth').exists()  # the copy does not train in the original


def test_results_without_checkpoints_are_not_replaced(videos: Path, copied: Path):
    (copied / 'report.md').unlink()  # as advised to write the results again
    shutil.move(copied / 'training', copied.parent)
    with pytest.raises(ValueError, match=r'encoder\.safetensors .*checkpoints are gone'):
        cvrl_mm.pretrain(out=copied)


def test_the_config_runs_with_the_tool(out: Path, videos: Path, tmp_path: Path, monkeypatch):
    """The folder is the original, whose name has code."""
    monkeypatch.chdir(tmp_path)
    options = ['train_cfg.max_iters=1', 'custom_hooks=None']
    options += ['model.cls_head.hidden_channels=64']
    monkeypatch.setattr('sys.path', list(__import__('sys').path))
    config, work_dir = out / 'config.py', tmp_path / 'work'
    run_script(monkeypatch, 'train.py', config, '--work-dir', work_dir, '--cfg-options', *options)
    assert (work_dir / 'iter_1.pth').is_file() and not (tmp_path / 'PWNED').exists()


def test_missing_videos_are_reported(videos: Path, copied: Path, tmp_path: Path, capfd):
    moved = Path(shutil.copytree(videos, tmp_path / 'videos'))
    inputs = json.loads((copied / 'inputs.json').read_text())
    (copied / 'inputs.json').write_text(json.dumps(inputs | dict(videos=dict(video=str(moved)))))
    (copied / 'report.md').unlink()
    next(moved.rglob('train_*.mp4')).unlink()
    cvrl_mm.pretrain(out=copied)
    assert '1 videos are left out, such as' in ''.join(capfd.readouterr())
    for path in moved.rglob('*.mp4'):
        path.unlink()
    (copied / 'report.md').unlink()
    with pytest.raises(FileNotFoundError, match='train_'):
        cvrl_mm.pretrain(out=copied)
    moved.rename(tmp_path / 'renamed')
    with pytest.raises(FileNotFoundError, match=str(moved)):
        cvrl_mm.pretrain(out=copied)


def test_another_training_in_the_folder_is_refused(videos: Path, out: Path, tmp_path: Path):
    for sources, options, named in (
        (videos, QUICK | dict(seed=2), 'seed'),
        (videos, dict(seed=0), 'batch_size'),  # the default, but given
        (videos / 'left', {}, 'videos'),
    ):
        with pytest.raises(ValueError, match=f'other .*{named}'):
            cvrl_mm.pretrain(sources, out, **options)
    with pytest.raises(ValueError, match='frozen'):
        cvrl_mm.finetune(None, [], out)
    (tmp_path / 'thesis.txt').touch()
    (tmp_path / 'new').mkdir()
    for path, named in ((tmp_path, 'other files'), (tmp_path / 'new', 'no training')):
        with pytest.raises(ValueError, match=named):
            claim(path, [videos] if path == tmp_path else [], Options())
    for sources in ([tmp_path / 'missing'], [tmp_path, str(tmp_path / 'missing.txt')]):
        with pytest.raises(FileNotFoundError, match='missing'):
            cvrl_mm.pretrain(sources, tmp_path / 'out')
    assert not (tmp_path / 'out').exists()


def test_before_the_first_step_the_options_may_change(tmp_path: Path):
    """Also after Ctrl-C during the inspection, when there is no config."""
    videos, other, out = [str(tmp_path / 'mine')], [str(tmp_path / 'other')], tmp_path / 'out'
    for path in (*videos, *other, out):
        Path(path).mkdir()
        Path(path, 'a.mp4').touch()
    (out / 'a.mp4').unlink()
    first, default = Options(seed=3, zoom=False, steps=7), Options()
    assert claim(out, videos, first) == (videos, first, False)
    assert claim(out, [], default, given=()) == (videos, first, False)
    (out / 'config.py').touch()
    for sources in ([], videos):
        assert claim(out, sources, default, given=()) == (videos, first, True)
    assert claim(out, [], Options(steps=5)) == (videos, Options(steps=5), False)
    assert not (out / 'config.py').exists()  # it is of the other options
    assert (out / 'config.py.old').exists()  # and may have been edited
    assert claim(out, [], default) == (videos, default, False)  # --seed 0 is an option, too
    claim(out, videos, first)
    assert claim(out, other, default, given=()) == (other, default, False)


def test_changed_videos_lists_and_encoders_are_noticed(tmp_path: Path, new_logger: None, capsys):
    """Before the first checkpoint they replace the old ones; later the training continues."""
    for name in ('set/a.mp4', 'mine/encoder.pth', 'out/.lock'):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    out, lists = tmp_path / 'out', [tmp_path / name for name in ('train.txt', 'val.txt')]
    for path in (*lists, tmp_path / 'classes.txt'):
        path.write_text('a.mp4 0')
    options = FinetuneOptions(val=str(lists[1]), init=str(tmp_path / 'mine'))

    def continues(*sources: Path) -> bool:
        return claim(out, sources, options)[2]

    sources = tmp_path / 'set', lists[0]
    assert not continues(*sources)
    names = 'train.txt', 'val.txt', 'classes.txt', 'set/a.mp4', 'set/b.mp4', 'mine/encoder.pth'
    for name in names:
        (out / 'config.py').touch()
        assert continues(*sources)
        (tmp_path / name).write_text('changed')
        assert continues()  # --out alone
        assert not continues(*sources), name
        assert not (out / 'config.py').exists()
    (out / 'config.py').touch()
    (out / 'training').mkdir()
    (out / 'training/iter_1.pth').touch()
    (tmp_path / 'set/c.mp4').touch()
    assert continues(*sources) and 'have changed' in capsys.readouterr().out
    (tmp_path / 'set').rename(tmp_path / 'moved')
    assert continues() and 'have changed' not in capsys.readouterr().out


def pretrain_quickly(videos: Path, out: Path) -> None:
    mmengine.config.config.FormatCode = lambda text, **kwargs: (text, False)  # takes seconds
    check.CONTEXT = mp.get_context('fork')  # the processes that open videos start faster
    cvrl_mm.pretrain(videos, out, **QUICK)


def test_two_ranks_train_together(videos: Path, tmp_path: Path):
    out = tmp_path / 'out'
    assert exit_codes(start_ranks(pretrain_quickly, 2, videos, out)) == [0, 0]
    assert '24 videos, 5 of them held out; 8 steps of 4 videos' in (out / 'report.md').read_text()
    (log,) = (out / 'training').glob('*/vis_data/scalars.json')
    steps = [row['step'] for row in map(json.loads, log.read_text().splitlines()) if 'loss' in row]
    assert steps == list(range(1, 9))
    lr = Config.fromfile(out / 'config.py').optim_wrapper.optimizer.lr
    assert lr == pytest.approx(0.004 * (8 / 48) ** 0.5, rel=0.03)  # for the batch of both ranks


def test_weights_to_start_from(videos: Path, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'text.pth').write_text('hello')
    for init in ('missing.pth', Path('text.pth'), 'hf://me'):
        with pytest.raises((OSError, ValueError), match=str(init)):
            cvrl_mm.pretrain(videos, 'out', init=init)
    kind = dict(type='ResNet3dSlowOnly', depth=18, base_channels=8, pretrained=None)
    state = {f'backbone.{k}': v for k, v in MODELS.build(kind).state_dict().items()}
    torch.save(dict(state_dict=state, meta=dict(backbone=kind)), tmp_path / 'mm.pth')
    with pytest.raises(ValueError, match='ResNet3dSlowOnly'):  # which ignores init_cfg
        cvrl_mm.pretrain(videos, 'out', init='mm.pth')
    network = train.copy_start(small_encoder(), tmp_path)
    assert (network.backbone['width'], network.channels) == (0.125, 64)
    assert network.size == small_encoder().size
    assert tuple(network.preprocessor['std']) == small_encoder().clip_input.std
    clips = torch.randint(0, 256, (1, 3, 4, 32, 32), dtype=torch.uint8)
    copied = cvrl_mm.load_encoder(tmp_path / 'init.pth')
    torch.testing.assert_close(copied.features(clips), small_encoder().features(clips))


@pytest.mark.parametrize(('share', 'cache'), [(0.4, None), (0.6, None), (0.6, dict(folder='x'))])
def test_slow_loading_gets_advice_once(share: float, cache: dict | None, capsys):
    hub, log = MessageHub.get_instance(f'progress {share} {cache}'), SimpleNamespace(window_size=2)
    dataset = dict(data_prefix=dict(video='/my videos'), cache=cache)
    cfg = Config(dict(train_dataloader=dict(batch_size=4, dataset=dataset), size=48))
    runner = SimpleNamespace(max_iters=9, message_hub=hub, log_processor=log, cfg=cfg)
    hook = train.ProgressHook()
    hook.before_train(runner)
    for runner.iter in (6, 7, 8):
        for name, value in dict(loss=6, accuracy=3 / 8, time=1, data_time=share).items():
            hub.update_scalar(f'train/{name}', value)
        hook.shown -= 31  # seconds
        hook.after_train_iter(runner)
    lines = capsys.readouterr().err
    assert 'Training 7/9  0:00:02 left  loss 6.00  accuracy 38% (chance 25%)' in lines
    assert lines.count('repack') == (share > 0.5 and not cache)


def test_names_from_outside_do_not_control_the_terminal(capsys):
    train._say('\x1b[2J.mp4', 'next \udcff')
    assert capsys.readouterr().err == '\\x1b[2J.mp4\nnext \\udcff\n'


def test_one_program_can_go_on_after_the_time_per_step_was_measured(out: Path):
    assert train.time_step(out / 'config.py') > 0
    print_log('the log file of the measurement is gone', 'current')


def test_a_training_that_learns_nothing_is_not_called_better(videos: Path, tmp_path: Path):
    """Although it changes the statistics of batch norm."""
    out = cvrl_mm.pretrain(videos, tmp_path / 'out', **{**QUICK, 'hours': None}, steps=10, lr=1e-9)
    assert (out / 'report.md').read_text().startswith('# Report\n\nNot clear yet.')
    saved = np.load(out / 'features.npz')
    np.testing.assert_allclose(saved['feats'], saved['feats_before'], atol=1e-4)
    paths = train.last_checkpoint(Config.fromfile(out / 'config.py'))[1], out / 'start.safetensors'
    states = [cvrl_mm.load_encoder(path).backbone.state_dict() for path in paths]
    assert not torch.allclose(*(state['conv1.bn.running_mean'] for state in states))
