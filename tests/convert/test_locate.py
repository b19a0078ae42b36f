import io
import random
import tarfile

import pytest

from cvrl_mm.convert.locate import checkpoint_prefix

FILES = {'r3d/ckpt-1.index': b'index', 'r3d/ckpt-1.data-00000-of-00001': b'data'}


def write_archive(path, members):
    with tarfile.open(path, 'w:gz') as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
            else:  # a link
                member.type, member.linkname = content
                tar.addfile(member)


@pytest.fixture
def folder(tmp_path):
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    return tmp_path / 'r3d'


@pytest.mark.parametrize('name', ['', 'ckpt-1', 'ckpt-1.index'])
def test_folder_prefix_and_index(folder, name):
    with checkpoint_prefix(folder / name) as prefix:
        assert prefix == folder / 'ckpt-1'


def test_archive_is_unpacked_and_cleared_away(tmp_path):
    archive = tmp_path / 'r3d.tar.gz'
    write_archive(archive, FILES | {'r3d/._ckpt-1.index': b'mac', 'r3d/readme.txt': b'text'})
    with checkpoint_prefix(archive) as prefix:
        for name, content in FILES.items():
            assert prefix.with_name(name.removeprefix('r3d/')).read_bytes() == content
        assert not prefix.with_name('readme.txt').exists()
    assert not prefix.parent.exists()


@pytest.mark.parametrize(
    ('name', 'content', 'seen'),
    [
        ('../evil.index', b'x', r'\.\./evil\.index would be written outside'),
        ('r3d/../../evil.index', b'x', 'would be written outside'),
        ('/tmp/evil.index', b'x', 'would be written outside'),
        ('r3d/link', (tarfile.SYMTYPE, '/'), 'r3d/link is a link'),
        ('r3d/hard.index', (tarfile.LNKTYPE, '/etc/passwd'), 'hard.index is a link'),
        ('r3d/pipe', (tarfile.FIFOTYPE, ''), 'r3d/pipe is a link or a device'),
    ],
)
def test_hostile_archives_are_refused(tmp_path, name, content, seen):
    archive = tmp_path / 'in' / 'r3d.tar.gz'
    archive.parent.mkdir()
    write_archive(archive, FILES | {name: content})
    with pytest.raises(ValueError, match=seen), checkpoint_prefix(archive):
        pass
    assert [p.name for p in tmp_path.rglob('*')] == ['in', 'r3d.tar.gz']


def test_damaged_archive(tmp_path):
    archive = tmp_path / 'r3d.tar.gz'
    write_archive(archive, {k: v * 10_000 for k, v in FILES.items()})
    archive.write_bytes(archive.read_bytes()[:-60])
    with pytest.raises(ValueError, match='not a readable archive'), checkpoint_prefix(archive):
        pass


@pytest.mark.parametrize('kind', ['bz2', 'xz'])
def test_an_archive_with_changed_bytes_is_damaged(tmp_path, kind):
    (tmp_path / 'a.index').write_bytes(random.Random(0).randbytes(100_000))
    archive = tmp_path / f'r3d.tar.{kind}'
    with tarfile.open(archive, f'w:{kind}') as tar:
        tar.add(tmp_path / 'a.index', 'a.index')
    content = bytearray(archive.read_bytes())
    content[50_000:50_100] = bytes(100)
    archive.write_bytes(content)
    with pytest.raises(ValueError, match='not a readable archive'), checkpoint_prefix(archive):
        pass


def test_none_or_several(tmp_path, folder):
    (folder / 'ckpt-2.index').touch()
    with pytest.raises(ValueError, match=r'ckpt-1\.index, .*ckpt-2\.index'):
        checkpoint_prefix(folder).__enter__()
    (tmp_path / 'empty').mkdir()
    with pytest.raises(FileNotFoundError, match='holds no checkpoint'):
        checkpoint_prefix(tmp_path / 'empty').__enter__()
    with pytest.raises(FileNotFoundError, match=r'no ckpt-3\.index'):
        checkpoint_prefix(folder / 'ckpt-3').__enter__()


def test_archives_that_would_fill_the_disk_are_refused(tmp_path):
    (tmp_path / 'a.index').write_bytes(bytes(8 << 20))
    with tarfile.open(tmp_path / 'bomb.tar.gz', 'w:gz') as tar:
        tar.add(tmp_path / 'a.index', 'a.index')
    refused = pytest.raises(ValueError, match='more than 20 times its size')
    with refused, checkpoint_prefix(tmp_path / 'bomb.tar.gz'):
        pass


def test_archives_with_very_deep_folders_are_refused(tmp_path):
    with tarfile.open(tmp_path / 'deep.tar.gz', 'w:gz') as tar:
        tar.addfile(tarfile.TarInfo('a/' * 1500 + 'a.index'))
    refused = pytest.raises(ValueError, match='more than 32 deep')
    with refused, checkpoint_prefix(tmp_path / 'deep.tar.gz'):
        pass
