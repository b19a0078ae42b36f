from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cvrl_mm.datasets.video_list import read_video_list

FUZZ = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
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
