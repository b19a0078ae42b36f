from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cvrl_mm.datasets import video_list
from cvrl_mm.datasets.video_list import VideoList, read_lines, read_video_list

FUZZ = settings(
    derandomize=True,
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def written(folder: Path, content: bytes) -> str:
    (folder / 'list.txt').write_bytes(content)
    return str(folder / 'list.txt')


def test_labels_and_spaces(tmp_path: Path):
    lines = 'a.mp4 3\nb c.mp4\nä 7 馬.mp4 -12\nv --5\nw ٣\n'
    assert read_video_list(written(tmp_path, lines.encode())) == [
        ('a.mp4', 3),
        ('b c.mp4', -1),
        ('ä 7 馬.mp4', -12),
        ('v --5', -1),
        ('w ٣', -1),
    ]


@FUZZ
@given(content=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_file_is_a_list_or_says_why_it_is_not(content: bytes, tmp_path: Path):
    try:
        videos = read_video_list(written(tmp_path, content))
    except ValueError as error:
        assert not isinstance(error, UnicodeError) and 'list.txt' in str(error)
    else:
        assert videos and all(path and isinstance(label, int) for path, label in videos)


def test_slices_share_the_memory(tmp_path: Path):
    videos = VideoList(written(tmp_path, b'a 1\nb 2\nc 3\nd'))
    assert [v['filename'] for v in videos] == ['a', 'b', 'c', 'd']
    assert [v['label'] for v in videos[1:3]] == [2, 3]
    assert list(videos[::-2]) == [videos[-1], videos[1]]
    assert videos[:2]._content is videos._content
    with pytest.raises(IndexError):
        videos[4]


@pytest.mark.parametrize('line', [b' 3', b'  ', b'-4', b',5', b'\xc2\xa0', b'a\0b.mp4 1'])
@pytest.mark.parametrize('block_lines', [2, 1000])
def test_a_line_without_a_file_is_found_in_any_block(
    line: bytes, block_lines: int, tmp_path: Path, monkeypatch
):
    monkeypatch.setattr(video_list, 'BLOCK_LINES', block_lines)
    monkeypatch.setattr(video_list, 'BLOCK_BYTES', 5)
    lines = ['馬,1'.encode(), b'7/12.,2', b'a b.mp4', line, b'c,4']
    path = written(tmp_path, b'\n'.join(lines))
    with pytest.raises(ValueError, match=r'list\.txt, line 4: .* names no file'):
        VideoList(path, delimiter=',')


def test_a_line_in_another_encoding_is_pointed_at(tmp_path: Path):
    with pytest.raises(ValueError, match=r'list\.txt, line 2 is not encoded in UTF-8'):
        VideoList(written(tmp_path, 'a.mp4\ngr\xfcn.mp4\n'.encode('latin-1')))


@pytest.mark.parametrize('line_break', [b'\r\n', b'\r'])
def test_line_breaks_of_other_systems(line_break: bytes, tmp_path: Path):
    path = written(tmp_path, b'a.mp4 1' + line_break + b'b.mp4 2' + line_break)
    assert read_video_list(path) == [('a.mp4', 1), ('b.mp4', 2)]


def test_a_byte_order_mark_is_no_part_of_the_first_path(tmp_path: Path):
    (tmp_path / 'list.txt').write_bytes(b'\xef\xbb\xbfa.mp4 1\nb.mp4 2\n')
    assert read_video_list(str(tmp_path / 'list.txt')) == [('a.mp4', 1), ('b.mp4', 2)]


@pytest.mark.parametrize('label', [2**63, -(10**17), '9' * 5000])
def test_a_label_with_too_many_digits_names_file_and_line(tmp_path: Path, label: int | str):
    lines = [f'a.mp4 {10**17}', '7012345678901234567.mp4 3', f'b c.mp4 {label} ']
    ann_file = written(tmp_path, '\n'.join(lines).encode())
    with pytest.raises(ValueError, match=r"list\.txt, line 3: The label of 'b c.mp4' has \d+ dig"):
        read_video_list(ann_file)
    assert len(VideoList(written(tmp_path, '\n'.join(lines[:2]).encode()))) == 2


def test_lines_are_those_that_the_videos_come_from(tmp_path: Path):
    content = '\ufeffa\u2028b.mp4 1\r\nc\x85d.mp4\re\x0cf.mp4 3\n'
    path = written(tmp_path, content.encode())
    assert read_lines(path) == ['a\u2028b.mp4 1', 'c\x85d.mp4', 'e\x0cf.mp4 3']
    assert read_video_list(path) == [('a\u2028b.mp4', 1), ('c\x85d.mp4', -1), ('e\x0cf.mp4', 3)]
    written(tmp_path, b'a.mp4\rb\xfc.mp4\n')
    with pytest.raises(ValueError, match=r'list\.txt, line 2 is not encoded in UTF-8'):
        read_lines(path)


@pytest.mark.parametrize('read', [VideoList, read_video_list, read_lines])
def test_a_folder_is_no_list(read, tmp_path: Path):
    with pytest.raises(IsADirectoryError, match='is a folder, but must be a text file'):
        read(str(tmp_path))


@pytest.mark.parametrize('read', [VideoList, read_video_list, read_lines])
def test_a_video_is_no_list(read, tmp_path: Path):
    path = tmp_path / 'a.MP4'
    path.write_bytes(b'\0\0\0 ftypisom\xff')
    with pytest.raises(ValueError, match=r'a\.MP4 is a video, but must be a text file'):
        read(str(path))
