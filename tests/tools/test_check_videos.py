import runpy
from pathlib import Path

import pytest

from tests.videos import encode

TOOL = str(Path(__file__).parents[2] / 'tools/data/check_videos.py')


@pytest.fixture
def run(monkeypatch, capsys):
    def run(*arguments: object) -> str:
        monkeypatch.setattr('sys.argv', ['check_videos.py', *map(str, arguments)])
        runpy.run_path(TOOL, run_name='__main__')
        return capsys.readouterr().out

    return run


def test_writes_a_clean_list_and_the_reasons(run, tmp_path: Path):
    encode(tmp_path / 'ä 馬.mp4')
    (tmp_path / 'empty.mp4').touch()
    (tmp_path / 'list.txt').write_text('ä 馬.mp4 7\nempty.mp4 1\nvanished.mp4 2\nä 馬.mp4\n')
    output = run(tmp_path / 'list.txt', '--workers', 1)  # its videos lie beside the list
    assert '2 of 4 videos are good' in output
    assert (tmp_path / 'list.clean.txt').read_text('utf-8') == 'ä 馬.mp4 7\nä 馬.mp4\n'
    assert (tmp_path / 'list.bad_videos.txt').read_text('utf-8').splitlines() == [
        f'{tmp_path}/empty.mp4\tInvalid data found when processing input',
        f'{tmp_path}/vanished.mp4\tNo such file or directory',
    ]


def test_no_good_video_is_a_failure(run, tmp_path: Path):
    (tmp_path / 'list.txt').write_text('vanished.mp4 2\n')
    with pytest.raises(SystemExit, match=r'None of the videos is good.*--root'):
        run(tmp_path / 'list.txt', '--root', tmp_path, '--workers', 1)
    assert (tmp_path / 'list.bad_videos.txt').is_file()
