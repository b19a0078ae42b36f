import io
import shutil
import sys
import tarfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch

from cvrl_mm.convert import convert_tf_checkpoint, save_weights
from cvrl_mm.convert.tensorflow import TensorBundle, _masked_crc32c
from cvrl_mm.models import R3DSlow
from tests.convert.tf_files import Variable, write_checkpoint, write_table

DATA = Path(__file__).parents[1] / 'data' / 'released_backbone'
NAME = 'r3d_50_w0.125_backbone-1'
SUFFIX = '/.ATTRIBUTES/VARIABLE_VALUE'
LAYER = 'backbone/layer_with_weights-'


@pytest.fixture(scope='module')
def golden():
    return np.load(DATA / 'golden.npz')


@pytest.fixture(scope='module')
def converted():
    return convert_tf_checkpoint(DATA / NAME)


@pytest.fixture(scope='module')
def clips(golden):
    """The inputs of the golden activations, drawn again; see the README beside them."""
    random = np.random.RandomState(7)
    random.random_sample(15102)
    clips = {}
    for name, shape in dict(x=(2, 16, 64, 64, 3), x_odd=(1, 10, 57, 75, 3)).items():
        clip = random.random_sample(shape).astype(np.float32)
        np.testing.assert_array_equal(clip.ravel()[:16], golden[name])
        clips[name] = torch.from_numpy(clip).permute(0, 4, 1, 2, 3)
    return clips


@pytest.mark.parametrize('suffix', ['', '_odd'])
def test_every_stage_has_the_activations_of_tensorflow(tmp_path, converted, golden, clips, suffix):
    file = save_weights(converted, tmp_path / 'out.pth')
    net = R3DSlow(
        50,
        width=0.125,
        padding='tf_same',
        out_indices=(0, 1, 2, 3),
        init_cfg=dict(type='Pretrained', checkpoint=str(file), prefix='backbone.'),
    )
    net.init_weights()
    with torch.no_grad():
        stages = net.eval()(clips[f'x{suffix}'])
    for stage, feats in enumerate(stages, start=2):
        feats = feats.permute(0, 2, 3, 4, 1).numpy()
        largest = golden[f'stage{stage}{suffix}_max']
        error = np.abs(feats.ravel()[::11] - golden[f'stage{stage}{suffix}']).max() / largest
        assert error < 1e-5, f'stage {stage}'
        assert np.abs(feats).max() == pytest.approx(largest, rel=1e-5)


def test_the_archive_as_downloaded(tmp_path, converted):
    backbone = dict(type='R3DSlow', depth=50, width=0.125, padding='tf_same')
    clips = dict(clip_len=32, frame_interval=2, size=256, mean=[0] * 3, std=[255] * 3, fps=25)
    assert converted['meta'] == dict(source=NAME, backbone=backbone, input=clips)
    archive = tmp_path / 'r3d_1x_k400_800ep.tar.gz'
    with tarfile.open(archive, 'w:gz') as tar:
        tar.add(DATA, arcname='r3d_1x_k400_800ep')
        tar.addfile(tarfile.TarInfo('r3d_1x_k400_800ep/._ckpt.index'))  # as written by macOS
    again = convert_tf_checkpoint(archive)
    assert again['meta']['source'] == archive.name
    for key, tensor in converted['state_dict'].items():
        assert torch.equal(again['state_dict'][key], tensor), key


@pytest.mark.parametrize(
    ('data', 'crc'),
    [
        (b'123456789', 0xE3069283),
        (bytes(32), 0x8A9136AA),  # this and the next: RFC 3720, B.4
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_checksums(data, crc, monkeypatch):
    assert _masked_crc32c(data) == (((crc >> 15) | (crc << 17)) + 0xA282EAD8) % 2**32
    monkeypatch.setitem(sys.modules, 'google_crc32c', None)
    with pytest.raises(ImportError, match='google-crc32c'):
        _masked_crc32c(data)


def test_any_changed_byte_of_the_index_is_noticed(tmp_path):
    path = tmp_path / 'x.index'
    write_checkpoint(tmp_path / 'x', dict(a=Variable(bytes(4), (1,))))
    good = path.read_bytes()
    expected = TensorBundle(tmp_path / 'x').entries
    for at in range(0, len(good) - 8, 3):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x40]) + good[at + 1 :])
        with suppress(ValueError, IndexError):
            # the footer begins with the handle of an unused block and ends with padding
            assert TensorBundle(tmp_path / 'x').entries == expected and at >= len(good) - 48


@pytest.mark.parametrize('damage', ['is damaged', 'is truncated'])
def test_damage_names_the_variable(tmp_path, damage):
    for file in DATA.glob(f'{NAME}.*'):
        shutil.copyfile(file, tmp_path / file.name)
    data = tmp_path / f'{NAME}.data-00000-of-00001'
    content = bytearray(data.read_bytes())
    if damage == 'is damaged':
        content[len(content) // 2] ^= 1
    else:
        del content[len(content) // 2 :]
    data.write_bytes(content)
    with pytest.raises(ValueError, match=f'^{LAYER}.*{SUFFIX} .*{damage}'):
        convert_tf_checkpoint(tmp_path / NAME)


@pytest.fixture(scope='module')
def variables():
    bundle = TensorBundle(DATA / NAME)
    return {
        name: Variable.of(bundle.read(name).numpy())
        for name in bundle.entries
        if name.startswith('backbone/')
    }


KERNEL = f'{LAYER}10/_temporal_conv/kernel{SUFFIX}'
STEM = f'{LAYER}0/kernel{SUFFIX}'


@pytest.mark.parametrize(
    ('changes', 'seen'),
    [
        ({f'{LAYER}5/_norm0/beta{SUFFIX}': None}, r'layer1\.3\.|layer2\.0\.downsample\.bn'),
        ({KERNEL: Variable(bytes(4 * 128 * 32), (1, 1, 1, 128, 32))}, 'layer3.1.conv1'),
        ({STEM: None, 'a\x1b[2J': Variable(bytes(4), (1,))}, r'a\\x1b'),
        ({STEM: Variable(bytes(4), ())}, 'a stem of'),
        ({STEM: Variable(b'', (5, 7, 7, 3, 2**40))}, STEM),
        ({KERNEL: Variable(bytes(8), (1,), dtype=2)}, KERNEL),
        ({KERNEL: Variable(bytes(4), (2,))}, KERNEL),
    ],
)
def test_what_is_no_r3d_is_refused(tmp_path, variables, changes, seen):
    kept = {k: v for k, v in (variables | changes).items() if v is not None}
    write_checkpoint(tmp_path / 'x', kept)
    with pytest.raises(ValueError, match=seen):
        convert_tf_checkpoint(tmp_path / 'x')


def archive(folder: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(folder / 'x.tar.gz', 'w:gz') as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return folder / 'x.tar.gz'


def link(folder: Path) -> Path:
    with tarfile.open(folder / 'x.tar.gz', 'w:gz') as tar:
        member = tarfile.TarInfo('x.index')
        member.type, member.linkname = tarfile.SYMTYPE, '/etc/passwd'
        tar.addfile(member)
    return folder / 'x.tar.gz'


def truncated(folder: Path) -> Path:
    path = archive(folder, {'x.index': np.random.default_rng(0).bytes(10_000)})
    path.write_bytes(path.read_bytes()[:-100])
    return path


def two_checkpoints(folder: Path) -> Path:
    for name in ('a.index', 'b.index'):
        (folder / name).touch()
    return folder


def test_a_malformed_table_is_refused(tmp_path):
    write_table(tmp_path / 'x.index', [(0, b'', b'\x0b\xff')])
    with pytest.raises(ValueError, match=str(tmp_path)):
        convert_tf_checkpoint(tmp_path / 'x')


@pytest.mark.parametrize(
    'make',
    [
        link,
        truncated,
        two_checkpoints,
        lambda folder: folder,
        lambda folder: archive(folder, {'a/x.index': b'', 'b/x.index': b''}),
    ],
)
def test_damaged_files_are_refused(tmp_path, make):
    with pytest.raises(ValueError, match=str(tmp_path)):
        convert_tf_checkpoint(make(tmp_path))


def test_nothing_is_written_outside_of_the_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setattr('tempfile.tempdir', str(tmp_path / 'temp'))
    (tmp_path / 'temp').mkdir()
    members = {'../../evil.index': b'x', '/tmp/evil.data-0': b'x', 'a/' * 200 + 'b.index': b'x'}
    with pytest.raises(ValueError, match=r'x\.tar'):
        convert_tf_checkpoint(archive(tmp_path, members))
    assert sorted(path.name for path in tmp_path.rglob('*')) == ['temp', 'x.tar.gz']
