import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from mmaction.apis import MMAction2Inferencer, inference_recognizer, init_recognizer
from mmengine.config import Config
from mmengine.runner import Runner

import cvrl_mm
from cvrl_mm.own_videos.train import last_checkpoint
from cvrl_mm.synthetic.motion import write_motion_videos
from tests.own_videos.folder import small_encoder

RUNTIME = Path(__file__).parents[2] / 'configs/_base_/default_runtime.py'
QUICK = dict(steps=2, batch_size=4, workers=0)
EVIL = """{{$A:(.*)|(\\');__import__("os").system("touch${IFS}PWNED")#}}"""


@pytest.fixture(scope='module')
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder, and 12 videos in two class folders, one of which has code in its name."""
    root = tmp_path_factory.mktemp('finetune')
    small_encoder().save(root / 'encoder.safetensors')
    write_motion_videos(root / 'set', num_train=12, num_test=1)
    for i, path in enumerate(sorted((root / 'set/videos').glob('train*.mp4'))):
        folder = root / 'videos' / ('left $x' if i < 6 else EVIL)
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / f'{i}.mp4')
    return root


@pytest.fixture(scope='module')
def out(root: Path) -> Path:
    return cvrl_mm.finetune(root / 'encoder.safetensors', root / 'videos', root / 'out', **QUICK)


def test_everything_is_written(out: Path, root: Path):
    report = json.loads((out / 'report.json').read_text())
    rows = report['classified']
    assert report['videos'] == len(rows) == 4  # 30 % of each class
    assert report['top1'] == sum(true == predicted for _, true, predicted in rows) / 4
    hits = sum(row[i] for i, row in enumerate(report['confusion']))
    assert (sum(map(sum, report['confusion'])), hits) == (4, 4 * report['top1'])
    page = (out / 'index.html').read_text()
    wrong = [row for row in rows if row[1] != row[2]]
    assert page.count('<figure><img src="data:image/webp') == len(wrong) and EVIL not in page
    assert str(root) not in page  # names are relative to the folder of the videos
    assert f'{QUICK["steps"]} steps' in (out / 'report.md').read_text()
    assert (out / 'confusion.png').stat().st_size > 1000
    assert not list(root.rglob('PWNED')) and not Path('PWNED').exists()
    classes = (out / 'lists/classes.txt').read_text().splitlines()
    assert classes == sorted(['left $x', EVIL])
    lists = [(out / f'lists/{name}.txt').read_text().splitlines() for name in ('train', 'val')]
    assert [len(lines) for lines in lists] == [8, 4] and not {*lists[0]} & {*lists[1]}
    for line in lists[0] + lists[1]:
        name, label = line.rsplit(' ', 1)
        assert name.startswith(classes[int(label)])


def test_mmaction2_predicts_the_same_from_the_folder(out: Path, root: Path):
    video = next((root / 'videos').rglob('*.mp4'))
    classifier = cvrl_mm.load_classifier(out)
    expected = torch.tensor([classifier(video)[name] for name in classifier.classes])
    config, weights = str(out / 'config.py'), str(out / 'classifier.pth')
    model = init_recognizer(config, weights, device='cpu')
    seen = inference_recognizer(model, str(video)).pred_score
    torch.testing.assert_close(seen, expected, rtol=1e-3, atol=1e-4)
    pytest.importorskip('decord')
    inferencer = MMAction2Inferencer(rec=config, rec_weights=weights, device='cpu')
    scores = inferencer(str(video))['predictions'][0]['rec_scores'][0]
    torch.testing.assert_close(torch.tensor(scores), expected, rtol=0.1, atol=0.02)  # decord


def test_the_config_alone_trains_and_continues(root: Path, tmp_path: Path):
    start = root / 'encoder.safetensors'
    out = cvrl_mm.finetune(start, root / 'videos', tmp_path / 'out', config_only=True, **QUICK)
    config, work = out / 'config.py', tmp_path / 'work'
    assert not (out / 'training').exists()
    cfg = Config.fromfile(config)
    assert cfg.model.backbone.depth == 18 and cfg.work_dir == f'{out}/training'
    for other in (cfg, Config.fromfile(RUNTIME)):  # means over steps, but not over validations
        pattern = other.log_processor.mean_pattern
        assert re.match(pattern, 'train/top1_acc') and not re.match(pattern, 'val/acc/top1')
    Runner.from_cfg(Config(dict(cfg, work_dir=str(work)))).train()  # as MMAction2's tools do
    assert len(cvrl_mm.load_classifier(work / 'iter_2.pth').classes) == 2
    assert cvrl_mm.finetune(out=out) == out
    config.write_text(config.read_text().replace('max_iters=2', 'max_iters=3'))
    cvrl_mm.finetune(out=out)
    assert last_checkpoint(Config.fromfile(config))[0] == 3


def test_a_held_out_video_that_cannot_be_read_is_left_out(root: Path, tmp_path: Path, capfd):
    videos = Path(shutil.copytree(root / 'videos', tmp_path / 'videos'))
    start = root / 'encoder.safetensors'
    out = cvrl_mm.finetune(start, videos, tmp_path / 'out', config_only=True, **QUICK)
    assert 'left $x 4' in ''.join(capfd.readouterr())  # the classes are named at the start
    name = (out / 'lists/val.txt').read_text().partition('.mp4')[0] + '.mp4'
    (videos / name).write_bytes(bytes((videos / name).stat().st_size))
    cvrl_mm.finetune(out=out)
    assert json.loads((out / 'report.json').read_text())['videos'] == 3
    assert Path(name).name in (out / 'report.md').read_text()


def test_a_frozen_encoder_stays_as_it_is(root: Path, tmp_path: Path):
    for name, place in (('train', '0 1 2 3 6 7 8 9'), ('val', '4 10')):
        folders = [('left $x' if int(i) < 6 else EVIL, i) for i in place.split()]
        lines = [f'{root}/videos/{f}/{i}.mp4 {int(i) // 6 * 9 + 1}\n' for f, i in folders]
        (tmp_path / f'{name}.txt').write_text(''.join(lines))
    given = dict(QUICK, batch_size=2, val=tmp_path / 'val.txt', frozen=True, size=40)
    start = root / 'encoder.safetensors'
    out = cvrl_mm.finetune(start, tmp_path / 'train.txt', tmp_path / 'out', **given)
    classifier = cvrl_mm.load_classifier(out)
    assert classifier.classes == ['1', '10'] and classifier.encoder.size == 40
    state = classifier.encoder.backbone.state_dict()
    for key, value in cvrl_mm.load_encoder(start).backbone.state_dict().items():
        assert torch.equal(state[key], value) or key.endswith('tracked'), key
    assert cvrl_mm.load_encoder(out).size == 40  # the same weights, as an encoder


@pytest.mark.parametrize(
    ('train', 'val', 'named'),
    [
        ('0 a,1 a,2 a', None, 'found a 2'),
        ('0 a,1 b,2 a,6 b', '3 c', 'c'),
        ('0 a,1 b,2 a,6 b', '0 a', r'0\.mp4'),
        ('0 a,1', None, r'1\.mp4'),
        ('0 a,1 a,6 b,7 b', None, '2 training videos|too few'),
    ],
)
def test_bad_lists_are_refused(root: Path, tmp_path: Path, train: str, val: str, named: str):
    for number in (0, 1, 2, 3, 6, 7):
        source = next((root / 'videos').glob(f'*/{number}.mp4'))
        (tmp_path / source.name).symlink_to(source)
    paths = dict(train=tmp_path / 'train.txt', val=tmp_path / 'val.txt')
    for path, text in zip(paths.values(), (train, val or ''), strict=True):
        pairs = [entry.partition(' ') for entry in text.split(',')]
        path.write_text(''.join(f'{name}.mp4 {label}\n' for name, _, label in pairs))
    given = dict(QUICK, val=paths['val'] if val else None)
    with pytest.raises(ValueError, match=named):
        cvrl_mm.finetune(root / 'encoder.safetensors', paths['train'], tmp_path / 'out', **given)


def test_all_videos_are_trained_on_if_none_is_held_out(root: Path, tmp_path: Path, capfd):
    start = root / 'encoder.safetensors', root / 'videos'
    out = cvrl_mm.finetune(*start, tmp_path / 'out', val='none', **QUICK)
    assert len((out / 'lists/train.txt').read_text().splitlines()) == 12
    assert len(cvrl_mm.load_classifier(out).classes) == 2
    assert (out / 'report.md').is_file() and (out / 'index.html').is_file()
    assert cvrl_mm.finetune(out=out) == out  # it is finished


def test_whole_groups_are_held_out(root: Path, tmp_path: Path):
    """Here by the number of a file modulo 3, in names that links give."""
    for i in range(12):
        source = next((root / 'videos').glob(f'*/{i}.mp4'))
        link = tmp_path / 'videos' / 'ab'[i // 6] / f'person{i % 3}_{i}.mp4'
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(source)
    given = dict(QUICK, groups='person([0-9])', config_only=True)
    start = root / 'encoder.safetensors', tmp_path / 'videos'
    out = cvrl_mm.finetune(*start, tmp_path / 'out', **given)
    people = [
        {line.split('_')[0][-1] for line in (out / f'lists/{name}.txt').read_text().splitlines()}
        for name in ('train', 'val')
    ]
    assert [len(x) for x in people] == [2, 1] and not people[0] & people[1]
    with pytest.raises(ValueError, match='--val and --groups'):
        cvrl_mm.finetune(*start, tmp_path / 'b', val=tmp_path / 'videos', **given)


def test_what_cannot_be_read_is_left_out_and_its_class_named(root: Path, tmp_path: Path):
    """As by a pre-training: a missing file of a list, and a class without any video."""
    lines = [f'{x} {x.parent.name[0]}\n' for x in sorted((root / 'videos').glob('*/*.mp4'))]
    (tmp_path / 'c.mp4').write_bytes(b'no video')
    (tmp_path / 'list.txt').write_text(''.join([*lines, 'gone.mp4 l\n', 'c.mp4 third\n']))
    given = root / 'encoder.safetensors', tmp_path / 'list.txt', tmp_path / 'out'
    with pytest.warns(UserWarning, match='third'):
        out = cvrl_mm.finetune(*given, config_only=True, **QUICK)
    table = (out / 'videos.tsv').read_text()
    assert all(name in table for name in ('gone.mp4', 'c.mp4'))
    assert len((out / 'lists/classes.txt').read_text().splitlines()) == 2


def test_random_weights_are_a_start(root: Path, tmp_path: Path):
    from cvrl_mm.own_videos import finetune  # not the module of a second import

    given, options = ('random', root / 'videos'), dict(QUICK, size=32, clip_len=4)
    other = finetune(*given, tmp_path / 'other', config_only=True, **options)
    out = finetune(*given, tmp_path / 'out', seed=1, **options)
    weights = [
        cvrl_mm.load_encoder(x / 'init.pth').backbone.conv1.conv.weight for x in (out, other)
    ]
    assert not torch.equal(*weights)
    assert Config.fromfile(out / 'config.py').model.backbone.width == 0.25
    assert sum(cvrl_mm.load_classifier(out)(next(root.rglob('*.mp4'))).values()) > 0.99
