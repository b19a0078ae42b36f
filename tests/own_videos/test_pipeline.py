import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config

import cvrl_mm
from cvrl_mm.engine.checkpoint_files import is_whole
from cvrl_mm.io import locked, replacing
from cvrl_mm.own_videos import pipeline
from cvrl_mm.own_videos.options import Options
from cvrl_mm.own_videos.training import final_checkpoint
from cvrl_mm.synthetic.motion import write_motion_videos
from tests.processes import exit_codes, start_ranks

# The smallest training that goes through all stages: 8 steps, after those that measure the time
QUICK = dict(hours=1e-6, size=32, clip_len=4, batch_size=4, workers=0, seed=1)


class Stopped(Exception):
    pass


@pytest.fixture(scope='module')
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 videos in two folders, a broken one and a copy."""
    root = tmp_path_factory.mktemp('own')
    write_motion_videos(root / 'set', num_train=24, num_test=1)
    for i, path in enumerate(sorted((root / 'set/videos').glob('train*.mp4'))):
        folder = root / 'mine' / ('left' if i < 12 else 'right')
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / path.name)
    (root / 'mine/left/broken.mp4').write_bytes(b'no video')
    shutil.copy(root / 'mine/left/train_00000.mp4', root / 'mine/right/copy.mp4')
    return root / 'mine'


@pytest.fixture(scope='module')
def out(videos: Path) -> Path:
    return cvrl_mm.pretrain(videos, videos.parent / 'out', **QUICK)


def test_everything_is_written(out: Path):
    encoder = cvrl_mm.load_encoder(out)
    assert (encoder.clip_len, encoder.size) == (4, 32)
    assert encoder.features(encoder.transform(_video(out))).shape == (10, 128)
    saved = np.load(out / 'features.npz')
    assert saved['feats'].shape == (24, 128) and len(set(saved['names'])) == 24
    before = np.load(out / 'training/features_before.npz')
    assert before['feats'].shape == (24, 128) and not np.allclose(before['feats'], saved['feats'])
    for name in ('index.html', 'curves.png', 'config.py', 'videos.tsv'):
        assert (out / name).stat().st_size > 100, name
    numbers = json.loads((out / 'report.json').read_text())
    assert list(numbers) == ['before training', 'after training']
    report = (out / 'report.md').read_text()
    for text in (
        '24 videos, 5 of them held out',
        'last clip finds its first clip',
        'by folder',
        'sign test',
    ):
        assert text in report
    assert 'held-out videos, among all 24' in (out / 'index.html').read_text()
    table = (out / 'videos.tsv').read_text()
    assert 'left/broken.mp4' in table and 'right/copy.mp4\t\t\t\t\tcopy of left/' in table


def _video(out: Path) -> Path:
    cfg = Config.fromfile(out / 'config.py')
    root = Path(cfg.train_dataloader.dataset.data_prefix.video)
    return root / (out / 'lists/train.txt').read_text().splitlines()[0].rpartition(' ')[0]


def test_the_log_has_the_watched_videos(out: Path):
    rows = next((out / 'training').glob('*/vis_data/scalars.json')).read_text().splitlines()
    watched = [row for row in map(json.loads, rows) if 'representation/clip_retrieval' in row]
    assert [row['step'] for row in watched] == list(range(1, 9))
    assert 'representation/knn_top1' in watched[0]  # by folder


def test_a_finished_training_is_left_as_it_is(out: Path, capsys):
    before = (out / 'encoder.safetensors').stat().st_mtime_ns
    cvrl_mm.pretrain(out=out)
    assert (out / 'encoder.safetensors').stat().st_mtime_ns == before


def test_a_stopped_training_continues(videos: Path, out: Path, tmp_path: Path):
    """With more steps in the edited config the run goes on from its last checkpoint."""
    shutil.copytree(out, tmp_path / 'out')
    config = tmp_path / 'out/config.py'
    config.write_text(config.read_text().replace('max_iters=8', 'max_iters=10'))
    work_dir = tmp_path / 'out/training'
    cvrl_mm.pretrain(videos, tmp_path / 'out', **QUICK)
    assert final_checkpoint(Config.fromfile(config)) == work_dir / 'iter_10.pth'
    logs = [path.read_text() for path in sorted(work_dir.glob('*/*.log'))]
    assert 'resumed' in logs[-1]
    files = sorted(work_dir.glob('*/vis_data/scalars.json'))
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    rates = {row['step']: row['lr'] for row in rows if 'lr' in row}
    assert rates[9] > rates[8]  # of a cosine over 10 steps, in place of one over 8
    # the results of 8 steps are replaced
    assert '10 steps' in (tmp_path / 'out/report.md').read_text()
    assert not (out / 'training/iter_10.pth').exists()  # the copy does not train in the original
    after, before = (
        np.load(folder / 'features.npz')['feats'] for folder in (tmp_path / 'out', out)
    )
    assert not np.array_equal(after, before)


def test_results_are_written_again_without_log_messages(
    out: Path, tmp_path: Path, new_logger, capfd
):
    """In a new process, without a runner of a training, whose logger prints only warnings."""
    folder = tmp_path / 'out'
    shutil.copytree(out, folder)
    (folder / 'report.md').unlink()
    assert cvrl_mm.pretrain(out=folder) == folder
    printed = ''.join(capfd.readouterr())
    assert 'The training is finished' in printed and (folder / 'report.md').is_file()
    assert 'init_weights' not in printed and 'mmengine' not in printed
    assert 'two-sided sign test' in printed


def test_missing_videos_are_reported(videos: Path, out: Path, tmp_path: Path, capfd):
    folder = tmp_path / 'out'
    shutil.copytree(out, folder)
    moved = tmp_path / 'videos'
    shutil.copytree(videos, moved)
    config = folder / 'config.py'
    text = config.read_text()
    assert str(videos) in text
    config.write_text(text.replace(str(videos), str(moved)))
    (folder / 'report.md').unlink()
    lost = next(moved.rglob('train_*.mp4'))
    lost.unlink()
    cvrl_mm.pretrain(out=folder)
    assert 'could not be read, such as' in ''.join(capfd.readouterr())
    for path in moved.rglob('*.mp4'):
        path.unlink()
    (folder / 'report.md').unlink()
    with pytest.raises(ValueError, match=f'None of the 24 videos can be read.* is {moved}/'):
        cvrl_mm.pretrain(out=folder)
    moved.rename(tmp_path / 'renamed')
    with pytest.raises(FileNotFoundError, match=f'folder of the videos, {moved}, .*/config.py'):
        cvrl_mm.pretrain(out=folder)
    assert not (folder / 'report.md').exists()


def test_a_damaged_final_checkpoint_is_not_a_finished_training(out: Path, tmp_path: Path):
    folder = tmp_path / 'out'
    shutil.copytree(out, folder)
    (folder / 'report.md').unlink()
    last = folder / 'training/iter_8.pth'
    checkpoint = torch.load(last, weights_only=False)
    checkpoint['meta']['iter'] = 7
    torch.save(checkpoint, last.with_name('preempted_7.pth'))
    last.write_bytes(last.read_bytes()[:1000])
    cvrl_mm.pretrain(out=folder)
    assert (folder / 'report.md').exists() and is_whole(last)


def test_half_a_report_is_none(out: Path, tmp_path: Path, monkeypatch):
    """A report marks a finished training, whose results would not be written again."""
    folder = tmp_path / 'out'
    shutil.copytree(out, folder)
    (folder / 'report.md').unlink()
    write_text = Path.write_text

    def fill_disk(path: Path, text: str, *args, **kwargs) -> int:
        if path.suffix != '.md':
            return write_text(path, text, *args, **kwargs)
        write_text(path, text[:100], *args, **kwargs)
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr(Path, 'write_text', fill_disk)
    with pytest.raises(OSError, match='No space left'):
        cvrl_mm.pretrain(out=folder)
    assert not list(folder.glob('*.md'))


def test_one_process_per_folder(videos: Path, out: Path):
    with locked(out), pytest.raises(BlockingIOError, match='Another process works on'):
        cvrl_mm.pretrain(out=out)
    assert cvrl_mm.pretrain(out=out) == out


def test_another_training_in_the_folder_is_refused(videos: Path, out: Path, tmp_path: Path):
    with pytest.raises(ValueError, match='holds a training with seed=1 in place of 2'):
        cvrl_mm.pretrain(videos, out, **(QUICK | dict(seed=2)))
    with pytest.raises(ValueError, match='holds a training with'):
        cvrl_mm.pretrain(videos / 'left', out)
    (tmp_path / 'thesis.txt').touch()
    with pytest.raises(ValueError, match='holds other files'):
        cvrl_mm.pretrain(videos, tmp_path)
    with pytest.raises(ValueError, match='no training to continue'):
        cvrl_mm.pretrain(out=tmp_path / 'new')


@pytest.mark.skipif(os.sep != '/', reason='needs names with backslashes')
@pytest.mark.parametrize('name', ["a'''b", 'a\\b', '{{ fileDirname }}'])
def test_a_path_that_no_config_can_contain_is_refused(name: str, tmp_path: Path):
    with pytest.raises(ValueError, match='choose another folder'):
        pipeline._check_folder(tmp_path / name, ['videos'])
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize('sources', [[], ['videos']])
def test_the_subfolder_of_the_checkpoints_is_refused(sources: list[str], tmp_path: Path):
    (tmp_path / pipeline.COMMAND).touch()
    (tmp_path / 'training').mkdir()
    (tmp_path / 'training/config.py').touch()
    with pytest.raises(ValueError, match=f'Name the output folder: {tmp_path}\\.$'):
        pipeline._check_folder(tmp_path / 'training', sources)


def test_a_source_that_does_not_exist_is_refused_before_anything_is_written(tmp_path: Path):
    (tmp_path / 'mine').mkdir()
    for sources in ([tmp_path / 'missing'], [tmp_path / 'mine', str(tmp_path / 'missing.txt')]):
        with pytest.raises(FileNotFoundError, match=f'There is no .* {sources[-1]}'):
            cvrl_mm.pretrain(sources, tmp_path / 'out')
    assert not (tmp_path / 'out').exists()


def test_a_killed_first_start_does_not_lock_the_folder_out(tmp_path: Path):
    (tmp_path / 'lock').touch()
    with replacing(tmp_path / pipeline.COMMAND) as part:
        part.write_text('{')
        pipeline._check_folder(tmp_path, ['videos'])
        (tmp_path / 'thesis.txt').touch()
        with pytest.raises(ValueError, match='holds other files'):
            pipeline._check_folder(tmp_path, ['videos'])


def test_before_the_first_step_the_options_may_change(videos: Path, tmp_path: Path, monkeypatch):
    def stop(config_file: Path) -> None:
        raise Stopped

    monkeypatch.setattr(pipeline, 'train', stop)
    for seed in (1, 2):
        with pytest.raises(Stopped):
            cvrl_mm.pretrain(videos, tmp_path, steps=4, workers=0, batch_size=4, seed=seed)
    with pytest.raises(Stopped):
        cvrl_mm.pretrain(out=tmp_path, steps=5, workers=0, batch_size=4, seed=3)
    cfg = Config.fromfile(tmp_path / 'config.py')
    assert (cfg.randomness.seed, cfg.train_cfg.max_iters) == (3, 5)


def test_without_a_config_the_stored_command_continues(tmp_path: Path, monkeypatch):
    """Ctrl-C during the inspection: the videos and the options are known, the config is not."""
    given: list = []

    def inspected(folder: Path, sources: list[str], cores: int) -> None:
        given.append(sources)
        raise KeyboardInterrupt if len(given) == 1 else Stopped

    monkeypatch.setattr(pipeline, '_inspect', inspected)
    prepared: list[Options] = []
    prepare = pipeline._prepare_folder

    def noted(*args) -> tuple:
        result = prepare(*args)
        prepared.append(result[1])
        return result

    monkeypatch.setattr(pipeline, '_prepare_folder', noted)
    (tmp_path / 'mine').mkdir()
    with pytest.raises(KeyboardInterrupt):
        cvrl_mm.pretrain(tmp_path / 'mine', tmp_path / 'out', seed=3, zoom=False, steps=7)
    for _ in range(2):  # continuing changes nothing
        with pytest.raises(Stopped):
            cvrl_mm.pretrain(out=tmp_path / 'out')
    assert given == [[str(tmp_path / 'mine')]] * 3
    assert prepared == [Options(seed=3, zoom=False, steps=7)] * 3
    with pytest.raises(Stopped):
        cvrl_mm.pretrain(tmp_path / 'mine', tmp_path / 'out')  # other options: the defaults
    assert prepared[-1] == Options()


def test_other_ranks_do_as_rank_0_says(tmp_path: Path, monkeypatch):
    """They may still see a config that rank 0 is about to replace."""
    (tmp_path / 'config.py').touch()
    met: list[dict] = []
    written: list = []

    def share(values: list) -> None:
        values[:] = [Options(steps=3), True]

    def write(folder: Path, found: object, start: object, options: Options) -> None:
        written.append((found, options))
        raise Stopped

    monkeypatch.setenv('RANK', '1')
    monkeypatch.setattr(pipeline, 'prepare_process', lambda cores: None)
    monkeypatch.setattr(pipeline, 'init_dist', lambda launcher, **kwargs: met.append(kwargs))
    monkeypatch.setattr(pipeline, 'broadcast_object_list', share, raising=False)
    monkeypatch.setattr(pipeline, '_write_config', write)
    with pytest.raises(Stopped):
        cvrl_mm.pretrain(out=tmp_path)
    assert written == [(None, Options(steps=3))]
    assert met[0]['timeout'] >= 24 * 3600  # they wait while rank 0 opens or encodes all videos


def pretrain_quickly(videos: Path, out: Path) -> None:
    cvrl_mm.pretrain(videos, out, **QUICK)


def test_two_ranks_train_together(videos: Path, tmp_path: Path):
    out = tmp_path / 'out'
    assert exit_codes(start_ranks(pretrain_quickly, 2, videos, out)) == [0, 0]
    assert '24 videos, 5 of them held out; 8 steps of 4 videos' in (out / 'report.md').read_text()
    (log,) = (out / 'training').glob('*/vis_data/scalars.json')
    steps = [row['step'] for row in map(json.loads, log.read_text().splitlines()) if 'loss' in row]
    assert steps == list(range(1, 9))
    lr = Config.fromfile(out / 'config.py').optim_wrapper.optimizer.lr
    assert lr == pytest.approx(0.004 * (8 / 64) ** 0.5, rel=0.02)  # for the batch of both ranks
    assert not list(out.glob('.*'))


def test_weights_may_be_a_path(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'mine').mkdir()
    for init in ('x.pth', Path('x.pth')):
        with pytest.raises(ValueError, match=r'--init /.*x\.pth cannot be used'):
            cvrl_mm.pretrain('mine', 'out', init=init)
    stored = json.loads((tmp_path / 'out/command.json').read_text())['options']
    assert stored['init'] == str(tmp_path / 'x.pth')
    with pytest.raises(ValueError, match='--init hf://me cannot be used'):
        cvrl_mm.pretrain('mine', 'out2', init='hf://me')
    for init in (5, ''):
        with pytest.raises(ValueError, match='init must be the path of a checkpoint'):
            cvrl_mm.pretrain('mine', 'out3', init=init)


def test_weights_to_start_from_are_checked_first(videos: Path, tmp_path: Path, monkeypatch):
    def opened(*args):
        raise AssertionError('the videos were opened before the weights')

    monkeypatch.setattr(pipeline, 'inspect', opened)
    (tmp_path / 'text.pth').write_text('hello')
    for init in (tmp_path / 'missing.pth', tmp_path / 'text.pth'):
        with pytest.raises(ValueError, match=f'--init .*{init.name} cannot be used: '):
            cvrl_mm.pretrain(videos, tmp_path / init.stem, init=str(init))


@pytest.mark.parametrize(
    ('old', 'new', 'message'),
    [
        ('max_iters=8', 'max_iters=six', 'cannot be read'),
        ('max_iters=8)', 'max_iters=8))', r'Line \d+ of the config .*config\.py'),
        (None, '', 'lacks model'),
        ('max_iters=8', "max_iters='9'", r"max_iters in .*/config\.py must be .* got '9'"),
        ('size = 32', 'size = 0', r'^size in .*/config\.py must be an integer from 32 .* got 0'),
        ('max_iters=8', 'max_iters=3', '8 steps are trained already'),
        ("folder + 'training'", "'/old/training'", 'trains in /old/training. If .* was moved'),
    ],
)
def test_mistakes_in_the_config(out: Path, tmp_path: Path, old: str | None, new: str, message: str):
    folder = tmp_path / 'out'
    shutil.copytree(out, folder)
    text = (folder / 'config.py').read_text()
    (folder / 'config.py').write_text(new if old is None else text.replace(old, new))
    with pytest.raises(ValueError, match=message):
        cvrl_mm.pretrain(out=folder)


def test_a_damaged_note_does_not_lock_the_training_out(out: Path, tmp_path: Path):
    shutil.copytree(out, tmp_path / 'out')
    note = tmp_path / 'out/command.json'
    note.write_text('{"videos": [')
    with pytest.raises(ValueError, match=r'command\.json is damaged. Remove it'):
        cvrl_mm.pretrain(out=tmp_path / 'out')
    note.unlink()
    for videos, options in (([tmp_path], {}), ([], dict(seed=2))):  # neither used nor recorded
        with pytest.raises(ValueError, match=r'no command\.json .* Give only --out'):
            cvrl_mm.pretrain(videos, tmp_path / 'out', **options)
    assert not note.exists()
    assert cvrl_mm.pretrain(out=tmp_path / 'out') == tmp_path / 'out'


@pytest.mark.parametrize('text', ['{"videos": [', '{"videos": 1, "options": {}}', '[]'])
def test_a_damaged_note_of_no_training_is_replaced(text: str, tmp_path: Path, monkeypatch):
    """After a failure during the inspection the folder has no config yet."""

    def inspected(folder: Path, sources: list[str], cores: int) -> None:
        raise Stopped(*sources)

    monkeypatch.setattr(pipeline, '_inspect', inspected)
    note = tmp_path / 'command.json'
    note.write_text(text)
    (tmp_path / 'videos.tsv').touch()
    (tmp_path / 'mine').mkdir()
    with pytest.raises(ValueError, match=r'is damaged\. No training has begun; give the videos'):
        cvrl_mm.pretrain(out=tmp_path)
    with pytest.raises(Stopped, match='mine'):
        cvrl_mm.pretrain(tmp_path / 'mine', tmp_path, steps=3)
    assert json.loads(note.read_text())['options']['steps'] == 3
    with pytest.raises(Stopped, match='mine'):
        cvrl_mm.pretrain(out=tmp_path)


def test_an_empty_path_is_not_the_current_folder(tmp_path: Path):
    for videos in ('', ['mine', '']):
        with pytest.raises(ValueError, match='path of a video is empty'):
            cvrl_mm.pretrain(videos, tmp_path / 'out')
    assert not (tmp_path / 'out').exists()


def test_an_empty_path_is_refused_beside_a_checkpoint(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'out/training').mkdir(parents=True)
    (tmp_path / 'out/training/iter_1.pth').touch()
    (tmp_path / 'out/config.py').touch()
    command = dict(videos=[str(tmp_path)], options=asdict(pipeline.Options()))
    (tmp_path / 'out' / pipeline.COMMAND).write_text(json.dumps(command))
    with pytest.raises(ValueError, match='path of a video is empty'):
        cvrl_mm.pretrain([''], tmp_path / 'out')
