from pathlib import Path

import pytest

from official_lists import (
    OfficialVideo,
    group_videos,
    leave_out_ids,
    match_files,
    read_hmdb51,
    read_kinetics,
    read_ucf101,
)

CSV = 'label,youtube_id,time_start,time_end,split\n'


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name.replace('__', '.')).write_text(text)
    return folder


def test_ucf101_as_published(tmp_path: Path):
    files = dict(classInd__txt='1 Archery\n2 BasketballDunk\n')
    for i in (1, 2, 3):
        files[f'trainlist0{i}__txt'] = f'Archery/v_Archery_g0{i}_c01.avi 1\n'
        files[f'testlist0{i}__txt'] = f'BasketballDunk/v_BasketballDunk_g0{i}_c01.avi\r\n'
    classes, splits = read_ucf101(write(tmp_path, **files))
    assert classes == ['Archery', 'BasketballDunk']
    assert sorted(splits) == [f'{side}_split_{i}' for side in ('train', 'val') for i in (1, 2, 3)]
    assert splits['train_split_3'] == [OfficialVideo('v_Archery_g03_c01', 'Archery')]
    assert splits['val_split_2'] == [OfficialVideo('v_BasketballDunk_g02_c01', 'BasketballDunk')]


def test_hmdb51_as_published(tmp_path: Path):
    for i in (1, 2, 3):
        for name in ('wave', 'brush_hair'):
            text = f'{name}_a_{i}.avi 1 \n{name}_b.avi 2 \n{name}_c.avi 0 \n'
            (tmp_path / f'{name}_test_split{i}.txt').write_text(text)
    classes, splits = read_hmdb51(tmp_path)
    assert classes == ['brush_hair', 'wave']
    assert [v.stem for v in splits['train_split_2']] == ['brush_hair_a_2', 'wave_a_2']
    assert [v.stem for v in splits['val_split_3']] == ['brush_hair_b', 'wave_b']
    (tmp_path / 'wave_test_split3.txt').unlink()
    with pytest.raises(FileNotFoundError, match=r'wave_test_split3\.txt'):
        read_hmdb51(tmp_path)


def test_kinetics_as_published(tmp_path: Path):
    rows = 'juggling balls,-aBc_dEfGh1,7,17,train\n"dancing, slow",AAAAAAAAAAA,100,110,train\n'
    write(
        tmp_path,
        train__csv=CSV + rows,
        val__csv=CSV + 'juggling balls,BBBBBBBBBBB,0,10,val\n',
        other__csv=CSV + 'surfing,BBBBBBBBBBB,0,10,val\n',
        test__csv='youtube_id,time_start,time_end,split\nBBBBBBBBBBB,0,10,test\n',
    )
    classes, splits = read_kinetics(tmp_path / 'train.csv', tmp_path / 'val.csv')
    assert classes == ['dancing, slow', 'juggling balls']
    assert splits['train_list'][0] == OfficialVideo('-aBc_dEfGh1_000007_000017', 'juggling balls')
    assert splits['val_list'] == [OfficialVideo('BBBBBBBBBBB_000000_000010', 'juggling balls')]
    with pytest.raises(ValueError, match=r"1 classes that .*'surfing'"):
        read_kinetics(tmp_path / 'train.csv', tmp_path / 'other.csv')
    with pytest.raises(ValueError, match=r'test\.csv, line 2'):  # it has no labels
        read_kinetics(tmp_path / 'train.csv', tmp_path / 'test.csv')


@pytest.mark.parametrize(
    ('text', 'line'),
    [
        (b'1 Archery\n2\n', 'line 2'),
        (b'1 Arch ery\n', 'line 1'),
        (b'1 Archery\n\n3 Diving\n', 'number'),
        (b'1 Archery\n2 Archery\n', 'number'),
        (b'\n', 'line 1'),
        (b'1 \xff\xfe\n', 'line 1'),
    ],
)
def test_a_damaged_class_list_is_named(tmp_path: Path, text: bytes, line: str):
    (tmp_path / 'classInd.txt').write_bytes(text)
    with pytest.raises(ValueError, match=rf'classInd\.txt.*{line}'):
        read_ucf101(tmp_path)


def test_a_damaged_hmdb51_split_is_named(tmp_path: Path):
    for line in ('b.avi', 'b.avi 3'):
        (tmp_path / 'wave_test_split1.txt').write_text(f'a.avi 1\n{line}\n')
        with pytest.raises(ValueError, match=r'wave_test_split1\.txt, line 2'):
            read_hmdb51(tmp_path)


@pytest.mark.parametrize(
    'row', ['surfing,AAAAAAAAAAA,1\n', 'surfing,A,one,11,train\n', 'surfing,A,inf,11,x\n', '']
)
def test_a_damaged_kinetics_csv_is_named(tmp_path: Path, row: str):
    (tmp_path / 'train.csv').write_text(CSV + row)
    with pytest.raises(ValueError, match=r'train\.csv, line [12]'):
        read_kinetics(tmp_path / 'train.csv', tmp_path / 'train.csv')


def test_byte_order_marks_are_no_part_of_the_first_name(tmp_path: Path):
    text = CSV + 'surfing,AAAAAAAAAAA,1,11,train\n'
    (tmp_path / 'train.csv').write_text(text, encoding='utf-8-sig')
    assert read_kinetics(tmp_path / 'train.csv', tmp_path / 'train.csv')[0] == ['surfing']


def test_videos_are_left_out_by_their_youtube_id(tmp_path: Path):
    ids = ['-_aB_cDe_01', 'BBBBBBBBBBB', '_2345678901']
    videos = [OfficialVideo(f'{i}_000001_000011', 'surfing') for i in ids]
    # another cut of the same videos
    rows = f'surfing,{ids[0]},50,60,validate\nsurfing,{ids[2]},1,11,validate\n'
    (tmp_path / 'val.csv').write_text(CSV + rows)
    assert leave_out_ids(videos, tmp_path / 'val.csv') == [videos[1]]
    (tmp_path / 'val.csv').write_text('a,b\n1,2\n')
    with pytest.raises(ValueError, match=r'val\.csv, line 2'):
        leave_out_ids(videos, tmp_path / 'val.csv')


def touch(root: Path, *names: str) -> dict[str, list[str]]:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return group_videos(root)


def test_files_are_found_in_any_folder_and_what_is_missing_is_named(tmp_path: Path):
    found = touch(tmp_path, 'a.mp4', 'class one/part 2/b.webm', 'c.txt')
    videos = [OfficialVideo(stem, 'class one') for stem in 'abc']
    lines, missing = match_files(videos, ['class zero', 'class one'], found)
    assert lines == ['a.mp4 1', 'class one/part 2/b.webm 1']
    assert missing == ['class one/c']


def test_of_two_files_of_one_name_the_folder_decides(tmp_path: Path):
    found = touch(tmp_path, 'ride_bike/x.avi', 'walk/x.avi')
    videos = [OfficialVideo('x', 'ride bike'), OfficialVideo('x', 'walk')]
    lines, _ = match_files(videos, ['ride bike', 'walk'], found)
    assert lines == ['ride_bike/x.avi 0', 'walk/x.avi 1']
    with pytest.raises(ValueError, match=r'several files of x \(run\): .*x\.avi'):
        match_files([OfficialVideo('x', 'run')], ['run'], found)


def test_an_empty_folder_is_an_error(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match='no videos'):
        group_videos(tmp_path)


def test_a_repacked_file_is_found_by_its_former_name(tmp_path: Path):
    for name in ('a.avi.mp4', 'b.WEBM.mp4', 'c.1.mp4'):
        (tmp_path / name).touch()
    assert group_videos(tmp_path) == {'a': ['a.avi.mp4'], 'b': ['b.WEBM.mp4'], 'c.1': ['c.1.mp4']}
