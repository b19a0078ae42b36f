import pytest

from cvrl_mm.evaluation.video_files import gather_videos


def test_files_folders_and_lists_are_found(tmp_path):
    for name in ('one.mp4', 'deep/er/B.AVI', 'deep/a.webm', 'deep/notes.md', 'x y.mkv'):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / 'list.txt').write_text('x y.mkv\nlabelled clip.mp4 3\n\ndeep/gone.mp4 -1\n')
    found = gather_videos([tmp_path / 'one.mp4', tmp_path / 'deep', tmp_path / 'list.txt'])
    names = 'one.mp4 deep/a.webm deep/er/B.AVI|x y.mkv|labelled clip.mp4|deep/gone.mp4'
    assert found == [
        str(tmp_path / name) for name in [*names.split('|')[0].split(), *names.split('|')[1:]]
    ]
    (tmp_path / 'list.txt').rename(tmp_path / 'LIST.TXT')
    assert gather_videos([tmp_path / 'LIST.TXT']) == found[-3:]
    (tmp_path / 'LIST.TXT').rename(tmp_path / 'list.txt')
    elsewhere = gather_videos([tmp_path / 'list.txt'], root='/data')
    assert elsewhere[0] == '/data/x y.mkv'


def test_the_spelling_of_a_path_does_not_change_a_name(tmp_path, monkeypatch):
    (tmp_path / 'a').mkdir()
    (tmp_path / 'a/x.mp4').touch()
    (tmp_path / 'list.txt').write_text('./a/x.mp4\n')
    monkeypatch.chdir(tmp_path)
    for source in ('a/x.mp4', './a/x.mp4', 'a//x.mp4', 'a', './a/', '.', 'list.txt', './list.txt'):
        assert gather_videos([source]) == ['a/x.mp4']


def test_sources_without_videos_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r'nowhere\.mp4'):
        gather_videos([tmp_path / 'nowhere.mp4'])
    with pytest.raises(ValueError, match='no video in the sources'):
        gather_videos([tmp_path])
    with pytest.raises(ValueError, match='path of a video is empty'):  # an empty shell variable
        gather_videos([tmp_path, ''])


def test_a_list_in_another_encoding_is_named(tmp_path):
    (tmp_path / 'list.txt').write_bytes('a.mp4\nGrüße.mp4\n'.encode('latin-1'))
    with pytest.raises(ValueError, match=r'list\.txt, line 2 is not encoded in UTF-8'):
        gather_videos([tmp_path / 'list.txt'])


def test_only_line_breaks_separate_the_videos_of_a_list(tmp_path):
    (tmp_path / 'list.txt').write_bytes('\ufeffa\u2028b.mp4 1\rc\x85d.mp4\r\n'.encode())
    found = gather_videos([tmp_path / 'list.txt'], root='/data')
    assert found == ['/data/a\u2028b.mp4', '/data/c\x85d.mp4']


def test_an_endless_label_is_named(tmp_path):
    (tmp_path / 'list.txt').write_text(f'a.mp4 1\nb.mp4 {"9" * 5000}\n')
    with pytest.raises(
        ValueError, match=r"list\.txt, line 2: The label of 'b\.mp4' has 5000 digits"
    ):
        gather_videos([tmp_path / 'list.txt'])
