from pathlib import Path

import pytest

from tests.script import run_script

LIST = 'a.mp4 1\nbroken [a1].mp4 2\n[/x].mp4 2\n'  # rich reads brackets as markup


def test_a_list_is_repacked_and_what_fails_is_shown(
    motion_set: Path, tmp_path: Path, monkeypatch, capsys
):
    (tmp_path / 'broken [a1].mp4').write_text('no video')
    (tmp_path / '[').mkdir()
    (tmp_path / '[/x].mp4').write_text('no video')
    (tmp_path / 'a.mp4').symlink_to(motion_set / 'videos/train_00000.mp4')
    (tmp_path / 'list.txt').write_text(LIST)
    target = tmp_path.parent / f'{tmp_path.name}_new'
    arguments = [tmp_path / 'list.txt', target, '--preset', 'ultrafast', '--workers', 1]
    run_script(monkeypatch, 'data/repack.py', *arguments)
    assert (target / 'list.txt').read_text() == LIST
    output = capsys.readouterr().out
    assert 'broken [a1].mp4' in output and '[/x].mp4' in output and 'copied' in output
    assert '1 videos repacked, 2 not' in ' '.join(output.split())


def test_two_shares_are_joined(motion_set: Path, tmp_path: Path, monkeypatch, capsys):
    for name in 'ab':
        (tmp_path / f'{name}.mp4').symlink_to(motion_set / 'videos/train_00000.mp4')
    (tmp_path / 'list.txt').write_text('a.mp4 1\nb.mp4 2\n')
    target = tmp_path.parent / f'{tmp_path.name}_new'
    arguments = [tmp_path / 'list.txt', target, '--preset', 'ultrafast', '--workers', 1]
    for rank in '01':
        monkeypatch.setenv('RANK', rank)
        monkeypatch.setenv('WORLD_SIZE', '2')
        run_script(monkeypatch, 'data/repack.py', *arguments)
    monkeypatch.delenv('RANK')
    run_script(monkeypatch, 'data/repack.py', *arguments)
    assert (target / 'list.txt').read_text() == 'a.mp4 1\nb.mp4 2\n'
    assert '2 videos repacked (2 of them by an earlier run), 0 not' in ' '.join(
        capsys.readouterr().out.split()
    )


def test_a_misspelt_preset_leaves_the_target_alone(tmp_path: Path, monkeypatch):
    (tmp_path / 'old').mkdir()
    arguments = [tmp_path / 'old', tmp_path / 'new', '--preset', 'fastt']
    with pytest.raises(SystemExit, match="veryslow, placebo; got 'fastt'"):
        run_script(monkeypatch, 'data/repack.py', *arguments)
    assert not (tmp_path / 'new').exists()
