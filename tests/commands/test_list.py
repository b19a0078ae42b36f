from pathlib import Path

import pytest

from tests.datasets.test_lists import touch
from tests.script import run_cvrl

CSV = 'label,youtube_id,time_start,time_end,split\n'


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch):
    return lambda *arguments: run_cvrl(monkeypatch, 'list', *arguments)


def annotate(root: Path, **files: str) -> Path:
    """Write files as published; ``__`` stands for the dot of their names."""
    (root / 'annotations').mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (root / 'annotations' / name.replace('__', '.')).write_text(text)
    return root


@pytest.fixture
def ucf101(tmp_path: Path) -> Path:
    files = dict(classInd__txt='2 Archery\n1 Diving\n')
    for i in (1, 2, 3):
        files[f'trainlist0{i}__txt'] = f'Archery/a{i}.avi 2\n'
        files[f'testlist0{i}__txt'] = 'Diving/d.avi\r\n'
    root = annotate(tmp_path / 'ucf101', **files)
    touch(root / 'videos', *(f'Archery/a{i}.avi' for i in (1, 2, 3)), 'Diving/d.mp4')
    return root


def test_ucf101_as_published(ucf101: Path, build):
    build('ucf101', ucf101)
    for i in (1, 2, 3):
        train, val = (ucf101 / f'ucf101_{s}_split_{i}_videos.txt' for s in ('train', 'val'))
        assert train.read_text() == f'Archery/a{i}.avi 1\n'
        assert val.read_text() == 'Diving/d.mp4 0\n'
    assert (ucf101 / 'classes.txt').read_text() == 'Diving\nArchery\n'
    assert not list(ucf101.glob('*.missing'))


def test_hmdb51_as_published(tmp_path: Path, build):
    root = annotate(tmp_path / 'hmdb51')
    for i in (1, 2, 3):
        for name in ('wave', 'brush_hair'):
            text = f'{name}_a_{i}.avi 1 \n{name}_b.avi 2 \n{name}_c.avi 0 \n'
            annotate(root, **{f'{name}_test_split{i}__txt': text})
            touch(root / 'videos', *(f'{name}_{x}.avi' for x in (f'a_{i}', 'b', 'c')))
    build('hmdb51', root)
    train, val = root / 'hmdb51_train_split_2_videos.txt', root / 'hmdb51_val_split_3_videos.txt'
    assert train.read_text() == 'brush_hair_a_2.avi 0\nwave_a_2.avi 1\n'
    assert val.read_text() == 'brush_hair_b.avi 0\nwave_b.avi 1\n'
    (root / 'annotations/wave_test_split1.txt').unlink()
    with pytest.raises(SystemExit, match='wave_test_split1'):
        build('hmdb51', root)


def test_kinetics_as_published(tmp_path: Path, build):
    rows = 'juggling balls,-aBc_dEfGh1,7,17,train\n"dancing, slow",AAAAAAAAAAA,100,110,train\n'
    root = annotate(
        tmp_path / 'kinetics400',
        train__csv=f'\ufeff{CSV}{rows}',
        validate__csv=f'{CSV}juggling balls,BBBBBBBBBBB,0,10,val\n',
    )
    names = '-aBc_dEfGh1_000007_000017.mp4', 'slow/AAAAAAAAAAA_000100_000110.avi.mp4'
    touch(root / 'videos_train', *names)
    touch(root / 'videos_val', 'BBBBBBBBBBB_000000_000010.webm')
    build('kinetics', root)
    train, val = (root / f'kinetics400_{side}_list_videos.txt' for side in ('train', 'val'))
    assert train.read_text() == f'{names[0]} 1\n{names[1]} 0\n'
    assert val.read_text() == 'BBBBBBBBBBB_000000_000010.webm 1\n'
    assert (root / 'classes.txt').read_text() == 'dancing, slow\njuggling balls\n'
    annotate(root, train_2__csv='')
    with pytest.raises(SystemExit, match=r'one \*train\*\.csv, found 2'):
        build('kinetics', root)


def test_k600_leaves_out_validation_videos_of_k400(tmp_path: Path, build, capsys):
    """Sec. 4.3: those would be trained on before they are evaluated."""
    rows = f'{CSV}surfing,AAAAAAAAAAA,1,11,x\nsurfing,_BB_BBBBBBB,2,12,x\n'
    tested = f'{CSV}surfing,CCCCCCCCCCC,3,13,x\n'
    root = annotate(tmp_path / 'kinetics600', train__csv=rows, val__csv=tested)
    names = ['AAAAAAAAAAA_000001_000011.mp4', '_BB_BBBBBBB_000002_000012.mp4']
    touch(root, *(f'videos_train/{name}' for name in names))
    touch(root, 'videos_val/CCCCCCCCCCC_000003_000013.mp4')
    other = tmp_path / 'k400_val.csv'
    other.write_text(f'{CSV}surfing,_BB_BBBBBBB,5,15,val\n')  # another cut of the same video
    build('kinetics', root, '--exclude', other)
    assert f'1 of 2 training videos left out: their ids are in {other}' in capsys.readouterr().out
    assert (root / 'kinetics600_train_list_videos.txt').read_text() == f'{names[0]} 0\n'
    assert (root / 'kinetics600_val_list_videos.txt').read_text().count('mp4') == 1
    rows = CSV + ''.join(f'class {i},DDDDDDDDDDD,1,11,x\n' for i in range(600))
    annotate(root, train__csv=rows)
    with pytest.raises(SystemExit, match='--keep-all'):
        build('kinetics', root, '--allow-missing')


def test_what_is_missing_is_named_and_left_out_if_that_is_allowed(ucf101: Path, build, capsys):
    (ucf101 / 'videos/Archery/a2.avi').unlink()
    with pytest.raises(SystemExit, match='--allow-missing'):
        build('ucf101', ucf101)
    assert 'train_split_2: 1 videos are missing, such as Archery/a2' in capsys.readouterr().out
    assert (ucf101 / 'ucf101_train_split_2_videos.missing').read_text() == 'Archery/a2\n'
    assert not (ucf101 / 'ucf101_train_split_1_videos.txt').exists()
    build('ucf101', ucf101, '--allow-missing')
    assert (ucf101 / 'ucf101_train_split_1_videos.txt').exists()


def test_other_lists_are_not_replaced(ucf101: Path, build):
    build('ucf101', ucf101)
    build('ucf101', ucf101)
    path = ucf101 / 'ucf101_val_split_1_videos.txt'
    path.write_text('mine.mp4 0\n')
    with pytest.raises(SystemExit, match=r'val_split_1_videos\.txt exists'):
        build('ucf101', ucf101)
    assert path.read_text() == 'mine.mp4 0\n'


def test_of_two_files_of_one_name_the_folder_decides(ucf101: Path, build):
    touch(ucf101 / 'videos', 'Diving/a1.avi')
    build('ucf101', ucf101)
    touch(ucf101 / 'videos', 'other/Archery/a1.avi')
    with pytest.raises(SystemExit, match=r'several files of a1 \(Archery\): .*a1\.avi'):
        build('ucf101', ucf101)
    for folder in ('Archery', 'other/Archery'):
        (ucf101 / 'videos' / folder / 'a1.avi').unlink()
    with pytest.raises(SystemExit, match='--allow-missing'):  # not that of another class
        build('ucf101', ucf101)


@pytest.mark.parametrize(
    ('dataset', 'name', 'text'),
    [
        ('ucf101', 'classInd.txt', b'1 Archery\n2\n'),
        ('hmdb51', 'wave_test_split1.txt', b'a.avi 1\nb.avi\n'),
        ('kinetics', 'train.csv', f'{CSV}surfing,AAAAAAAAAAA,1\n'.encode()),
        ('kinetics', 'train.csv', b'youtube_id,time_start,time_end,split\nAAAAAAAAAAA,0,9,x\n'),
    ],
)
def test_a_damaged_file_is_named(dataset: str, name: str, text: bytes, tmp_path: Path, build):
    (annotate(tmp_path) / 'annotations' / name).write_bytes(text)
    with pytest.raises(SystemExit, match=rf'{name} is not as published'):
        build(dataset, tmp_path)


def test_class_folders_become_a_training_and_a_test_list(tmp_path: Path, build, capsys):
    touch(tmp_path, *(f'{c}/{c}{i}.mp4' for c in ('jump', 'run') for i in range(10)))
    build('folders', tmp_path)
    train, test = ((tmp_path / f'{s}.txt').read_text().splitlines() for s in ('train', 'test'))
    assert sorted(line[-2:] for line in train) == [' 0'] * 7 + [' 1'] * 7
    assert sorted(line[-2:] for line in test) == [' 0'] * 3 + [' 1'] * 3
    assert not set(train) & set(test)
    assert (tmp_path / 'classes.txt').read_text() == 'jump\nrun\n'
    assert '14 videos, 2 classes' in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r'train\.txt exists'):  # it may be the user's
        build('folders', tmp_path, '--test-percent', 50)
    assert not capsys.readouterr().out  # not as if it had been written


@pytest.mark.parametrize(
    ('names', 'seen'),
    [
        (['a/1.mp4', 'a/2.mp4'], '1 folders'),
        (['a/1.mp4', 'b/1.mp4', '2.mp4'], r'2\.mp4'),
        ([f'{s}/{c}/{c}.mp4' for s in ('train', 'val') for c in 'ab'], 'train, val'),
    ],
)
def test_other_folders_are_refused(names: list[str], seen: str, tmp_path: Path, build):
    touch(tmp_path, *names)
    with pytest.raises(SystemExit, match=seen):
        build('folders', tmp_path)
    assert not list(tmp_path.glob('*.txt'))
