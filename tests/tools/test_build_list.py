from pathlib import Path

import pytest

from tests.script import run_script

CSV = 'label,youtube_id,time_start,time_end,split\n'


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


@pytest.fixture
def ucf101(tmp_path: Path) -> Path:
    root = tmp_path / 'ucf101'
    (root / 'annotations').mkdir(parents=True)
    (root / 'annotations' / 'classInd.txt').write_text('1 Archery\n2 Diving\n')
    for i in (1, 2, 3):
        (root / 'annotations' / f'trainlist0{i}.txt').write_text(f'Archery/a{i}.avi 1\n')
        (root / 'annotations' / f'testlist0{i}.txt').write_text('Diving/d.avi\n')
    touch(root / 'videos', *(f'Archery/a{i}.avi' for i in (1, 2, 3)), 'Diving/d.mp4')
    return root


def test_writes_the_lists_that_the_configs_name(ucf101: Path, monkeypatch):
    run_script(monkeypatch, 'data/build_list.py', 'ucf101', ucf101)
    for i in (1, 2, 3):
        train, val = (ucf101 / f'ucf101_{s}_split_{i}_videos.txt' for s in ('train', 'val'))
        assert train.read_text() == f'Archery/a{i}.avi 0\n'
        assert val.read_text() == 'Diving/d.mp4 1\n'
    assert (ucf101 / 'classes.txt').read_text() == 'Archery\nDiving\n'
    assert not list(ucf101.glob('*.missing'))


def test_what_is_missing_is_counted_named_and_an_error(ucf101: Path, monkeypatch, capsys):
    (ucf101 / 'videos' / 'Archery' / 'a2.avi').unlink()
    with pytest.raises(SystemExit) as stopped:
        run_script(monkeypatch, 'data/build_list.py', 'ucf101', ucf101)
    assert stopped.value.code == 1
    assert 'ucf101_train_split_2_videos.txt: 0 videos, 1 missing' in capsys.readouterr().out
    assert (ucf101 / 'ucf101_train_split_2_videos.missing').read_text() == 'Archery/a2\n'
    run_script(monkeypatch, 'data/build_list.py', 'ucf101', ucf101, '--allow-missing')
    touch(ucf101 / 'videos', 'Archery/a2.avi')
    run_script(monkeypatch, 'data/build_list.py', 'ucf101', ucf101)
    assert not list(ucf101.glob('*.missing'))


def test_kinetics_has_a_folder_for_each_side(tmp_path: Path, monkeypatch):
    root = tmp_path / 'kinetics400'
    touch(root, 'videos_train/surfing/AAAAAAAAAAA_000001_000011.mp4')
    touch(root, 'videos_val/BBBBBBBBBBB_000000_000010.mp4')
    (root / 'annotations').mkdir()
    for name, row in (('train', 'AAAAAAAAAAA,1,11,train'), ('validate', 'BBBBBBBBBBB,0,10,val')):
        (root / 'annotations' / f'{name}.csv').write_text(f'{CSV}surfing,{row}\n')
    run_script(monkeypatch, 'data/build_list.py', 'kinetics', root)
    lists = [(root / f'kinetics400_{s}_list_videos.txt').read_text() for s in ('train', 'val')]
    assert lists == [
        'surfing/AAAAAAAAAAA_000001_000011.mp4 0\n',
        'BBBBBBBBBBB_000000_000010.mp4 0\n',
    ]
    (root / 'annotations' / 'train_2.csv').touch()
    with pytest.raises(SystemExit, match=r'one \*train\*\.csv, found 2'):
        run_script(monkeypatch, 'data/build_list.py', 'kinetics', root)


def test_k600_leaves_out_validation_videos_of_k400(tmp_path: Path, monkeypatch, capsys):
    """Section 4.3: those would be trained on before they are evaluated."""
    root, other = tmp_path / 'kinetics600', tmp_path / 'k400_val.csv'
    names = ['AAAAAAAAAAA_000001_000011.mp4', 'BBBBBBBBBBB_000002_000012.mp4']
    touch(root, *(f'videos_{side}/{name}' for side in ('train', 'val') for name in names))
    (root / 'annotations').mkdir()
    rows = 'surfing,AAAAAAAAAAA,1,11,x\nsurfing,BBBBBBBBBBB,2,12,x\n'
    for name in ('train', 'val'):
        (root / 'annotations' / f'{name}.csv').write_text(CSV + rows)
    other.write_text(f'{CSV}surfing,BBBBBBBBBBB,5,15,val\n')
    run_script(monkeypatch, 'data/build_list.py', 'kinetics', root, '--exclude', other)
    assert f'1 of 2 training videos left out: their ids are in {other}' in capsys.readouterr().out
    assert (root / 'kinetics600_train_list_videos.txt').read_text() == f'{names[0]} 0\n'
    assert (root / 'kinetics600_val_list_videos.txt').read_text().count('mp4') == 2
    for name in ('train', 'val'):
        rows = (f'class {i},CCCCCCCCCCC,1,11,x\n' for i in range(600))
        (root / 'annotations' / f'{name}.csv').write_text(CSV + ''.join(rows))
    with pytest.raises(SystemExit, match='--keep-all'):
        run_script(monkeypatch, 'data/build_list.py', 'kinetics', root, '--allow-missing')
    options = '--allow-missing', '--keep-all'
    run_script(monkeypatch, 'data/build_list.py', 'kinetics', root, *options)


def test_class_folders_become_a_training_and_a_test_list(tmp_path: Path, monkeypatch, capsys):
    touch(tmp_path, *(f'{c}/{c}{i}.mp4' for c in ('jump', 'run') for i in range(10)))
    run_script(monkeypatch, 'data/build_list.py', 'folders', tmp_path)
    train, test = ((tmp_path / f'{s}.txt').read_text().splitlines() for s in ('train', 'test'))
    assert sorted(line[-2:] for line in train) == [' 0'] * 7 + [' 1'] * 7
    assert sorted(line[-2:] for line in test) == [' 0'] * 3 + [' 1'] * 3
    assert not set(train) & set(test)
    assert (tmp_path / 'classes.txt').read_text() == 'jump\nrun\n'
    assert '14 videos, 2 classes' in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r'train\.txt exists'):  # it may be the user's
        run_script(monkeypatch, 'data/build_list.py', 'folders', tmp_path, '--test-percent', 50)
    for name in ('train', 'test'):
        (tmp_path / f'{name}.txt').unlink()
    run_script(monkeypatch, 'data/build_list.py', 'folders', tmp_path, '--test-percent', 50)
    assert len((tmp_path / 'test.txt').read_text().splitlines()) == 10


def test_only_kinetics_has_ids_to_exclude(ucf101: Path, monkeypatch):
    with pytest.raises(SystemExit, match='2'):
        run_script(monkeypatch, 'data/build_list.py', 'ucf101', ucf101, '--exclude', 'val.csv')


def test_a_missing_folder_ends_in_one_sentence(tmp_path: Path, monkeypatch):
    with pytest.raises(SystemExit, match=r'^build_list: There is no folder'):
        run_script(monkeypatch, 'data/build_list.py', 'folders', tmp_path / 'lost')
