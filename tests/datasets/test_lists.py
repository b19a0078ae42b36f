from pathlib import Path

import pytest

from cvrl_mm.datasets.lists import (
    VideoList,
    check_labels,
    find_videos,
    gather_videos,
    parse_line,
    read_labels,
    read_lines,
    read_video_list,
    video_list,
)


def written(folder: Path, content: bytes) -> str:
    (folder / 'list.txt').write_bytes(content)
    return str(folder / 'list.txt')


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def test_labels_and_spaces(tmp_path: Path):
    lines = f'a.mp4 3\nb c.mp4\nä 7 馬.mp4 -12\nv ٣\nw {10**18}\nx {10**17}\ny.mp4 jump high\n1 z'
    (tmp_path / '1 z').mkdir()  # a folder of frames
    path = written(tmp_path, lines.encode())
    assert VideoList(path, prefix=str(tmp_path))[:] == [
        dict(filename=str(tmp_path / name), label=label)
        for name, label in (
            ('a.mp4', 3),
            ('b c.mp4', -1),
            ('ä 7 馬.mp4', -1),
            ('v', -1),
            ('w', -1),  # fits into no tensor
            ('x', 10**17),
            ('y.mp4', -1),
            ('1 z', -1),
        )
    ]
    names = ['a.mp4', 'b c.mp4', 'ä 7 馬.mp4', 'v', 'w', 'x', 'y.mp4', '1 z']
    labels = ['3', '', '', '٣', str(10**18), str(10**17), 'jump high', '']
    assert read_labels(path) == list(zip(names, labels, strict=True))
    assert gather_videos([path]) == [str(tmp_path / name) for name in names]


def test_a_line_in_another_encoding_is_pointed_at(tmp_path: Path):
    with pytest.raises(ValueError, match=r'list\.txt, line 4'):
        VideoList(written(tmp_path, '馬 1\n\na b.mp4\n'.encode() + b'gr\xfcn.mp4\nc 4'))


def test_any_white_space_before_the_label_and_blank_lines(tmp_path: Path):
    content = b'\n  \na  b.mp4  3\nc.mp4\t4\n \t\n d.mp4 \t 5 \n\ne f.mp4 \n\n0007\n'
    path = written(tmp_path, content)
    expected = [('a  b.mp4', 3), ('c.mp4', 4), ('d.mp4', 5), ('e f.mp4', -1), ('0007', -1)]
    assert read_video_list(path) == expected
    labels = [(name, '' if label < 0 else str(label)) for name, label in expected]
    assert read_labels(path) == [parse_line(line) for line in read_lines(path)] == labels
    assert gather_videos([path], root='/x') == [f'/x/{name}' for name, _ in expected]
    with pytest.raises(ValueError, match=r'list\.txt: .*e f\.mp4'):
        check_labels(dict(ann_file=path), None)


@pytest.mark.parametrize('line_break', ['\n', '\r\n', '\r'])
def test_lines_are_those_of_the_videos(line_break: str, tmp_path: Path):
    lines = ['a\u2028b.mp4 1', 'c\x85d.mp4', 'e\x0cf.mp4 3']
    path = written(tmp_path, ('\ufeff' + line_break.join([*lines, ''])).encode())
    assert read_lines(path) == lines
    assert read_labels(path) == [parse_line(line) for line in lines]


def test_videos_are_found_by_their_suffix(tmp_path: Path):
    root = tmp_path / '.data'  # only names below the folder are skipped
    (root / 'b/c.mp4').mkdir(parents=True)  # a folder is no video
    found = ['a.avi', 'b/c.mp4/y.webm', 'b/x.MP4', 'd.MTS', 'e.m2ts']
    touch(root, *found, 'b/notes.txt', 'mp4', 'x.gif', 'y.GIF')
    touch(root, 'b/._x.mp4', '.trash/y.mp4', '__MACOSX/a/z.mp4', 'b/lost+found/x.mp4')
    with pytest.warns(UserWarning, match=r'2 files .*\.gif \(2\)'):
        assert [path.relative_to(root).as_posix() for path in find_videos(root)] == found


def test_links_to_folders_are_followed_once(tmp_path: Path):
    touch(tmp_path, 'store/a/1.mp4', 'set/b/2.mp4')
    videos = tmp_path / 'set'
    for name, target in {'a': 'store/a', 'z': 'store', 'b/loop': 'set', 'no': 'nowhere'}.items():
        (videos / name).symlink_to(tmp_path / target)
    (tmp_path / 'store/back').symlink_to(videos)
    assert find_videos(videos) == [videos / name for name in ('a/1.mp4', 'b/2.mp4')]


def test_sources_are_videos_folders_and_lists(tmp_path: Path):
    touch(tmp_path, 'one.mp4', 'deep/b/2.mp4', 'deep/a.avi')
    list_file = written(tmp_path, b'x y.mp4 3\n\nz.mp4 jump high\nz.mp4 2.mp4\n')
    folder = [str(tmp_path / 'deep' / name) for name in ('a.avi', 'b/2.mp4')]
    one = str(tmp_path / 'one.mp4')
    listed = [str(tmp_path / name) for name in ('x y.mp4', 'z.mp4', 'z.mp4 2.mp4')]
    assert gather_videos([one, tmp_path / 'deep', list_file]) == [one, *folder, *listed]
    assert gather_videos([list_file], root='/data') == [f'/data/{Path(x).name}' for x in listed]


@pytest.mark.parametrize('first', ['path label', 'filename,class', 'video', 'a.mp4,jump'])
def test_a_header_and_commas_are_named(first: str, tmp_path: Path):
    path = tmp_path / 'list.txt'
    path.write_text(f'{first}\na.mp4 jump\n')
    for read in (read_labels, lambda path: gather_videos([path])):
        with pytest.raises(ValueError, match=r'list\.txt: .*(header|comma)'):
            read(path)
    (tmp_path / first).touch()  # a video of this name
    assert len(gather_videos([path])) == 2


def test_labels_of_a_config_are_checked(tmp_path: Path):
    dataset = dict(
        ann_file=written(tmp_path, b'a b.mp4,7\nc.mp4,2\n'),
        data_prefix=dict(video='videos'),
        delimiter=',',
    )
    assert video_list(dataset)[0] == dict(filename='videos/a b.mp4', label=7)
    assert check_labels(dataset, 8) == check_labels(dataset, None) == {2, 7}
    with pytest.raises(ValueError, match=r'a b\.mp4.*num_classes'):
        check_labels(dataset, 7)
    written(tmp_path, b'a.mp4,0\nb.mp4\n')
    with pytest.raises(ValueError, match=r'b\.mp4.* no label'):
        check_labels(dataset, None)
    assert check_labels(dict(dataset, multi_class=True), 7) == set()


@pytest.mark.parametrize(
    ('call', 'error'),
    [
        (lambda folder: VideoList(f'{folder}/none.txt'), FileNotFoundError),
        (lambda folder: read_lines(str(folder)), IsADirectoryError),
        (lambda folder: VideoList(written(folder, b'')), ValueError),
        (lambda folder: gather_videos([folder / 'nowhere.mp4']), FileNotFoundError),
        (lambda folder: gather_videos(['']), FileNotFoundError),  # an unset variable of a shell
        (lambda folder: gather_videos([folder]), ValueError),
    ],
)
def test_bad_arguments(call, error: type, tmp_path: Path):
    with pytest.raises(error):
        call(tmp_path)
