import io
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch

from cvrl_mm.convert import convert_tf_checkpoint
from cvrl_mm.convert.tensorflow import MAGIC, TensorBundle
from cvrl_mm.encoder.files import save_weights
from cvrl_mm.models import R3DSlow

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


def test_truncation_names_the_variable(tmp_path):
    for file in DATA.glob(f'{NAME}.*'):
        shutil.copyfile(file, tmp_path / file.name)
    data = tmp_path / f'{NAME}.data-00000-of-00001'
    data.write_bytes(data.read_bytes()[: data.stat().st_size // 2])
    with pytest.raises(ValueError, match=f'^{LAYER}.*{SUFFIX} .*truncated'):
        convert_tf_checkpoint(tmp_path / NAME)


def varint(value: int) -> bytes:
    out = b''
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def number(tag: int, value: int) -> bytes:
    return varint(tag << 3) + varint(value)


def message(tag: int, content: bytes) -> bytes:
    return varint(tag << 3 | 2) + varint(len(content)) + content


def block(entries: list[tuple[bytes, bytes]]) -> bytes:
    """A block of a table, without its compression, which is none, and its checksum."""
    content = b''.join(
        varint(0) + varint(len(key)) + varint(len(value)) + key + value for key, value in entries
    )
    return content + (0).to_bytes(4, 'little') + (1).to_bytes(4, 'little')


def write_checkpoint(prefix: Path, variables: Mapping[str, np.ndarray]) -> None:
    """Write ``prefix.index`` and ``prefix.data-00000-of-00001``."""
    entries, data = [(b'', number(1, 1))], b''
    for name, array in sorted(variables.items()):
        shape = b''.join(message(2, number(1, size)) for size in array.shape)
        kind = 1 if array.dtype == np.float32 else 2
        entry = number(1, kind) + message(2, shape) + number(4, len(data))
        entries.append((name.encode(), entry))
        data += array.tobytes()
    table = block(entries)
    index = block([(b'~', varint(0) + varint(len(table)))])
    footer = varint(0) * 2 + varint(len(table) + 5) + varint(len(index))
    content = table + bytes(5) + index + bytes(5) + footer.ljust(40, b'\0') + MAGIC
    prefix.with_name(f'{prefix.name}.index').write_bytes(content)
    prefix.with_name(f'{prefix.name}.data-00000-of-00001').write_bytes(data)


@pytest.fixture(scope='module')
def variables():
    bundle = TensorBundle(DATA / NAME)
    names = [name for name in bundle.entries if name.startswith('backbone/')]
    return {name: bundle.read(name).numpy() for name in names}


KERNEL = f'{LAYER}10/_temporal_conv/kernel{SUFFIX}'
STEM = f'{LAYER}0/kernel{SUFFIX}'


@pytest.mark.parametrize(
    ('changes', 'seen'),
    [
        ({f'{LAYER}5/_norm0/beta{SUFFIX}': None}, r'layer1\.3\.|layer2\.0\.downsample\.bn'),
        ({KERNEL: np.zeros((1, 1, 1, 128, 32), 'f4')}, 'layer3.1.conv1'),
        ({KERNEL: np.zeros((1, 1, 1, 128, 64), 'f8')}, KERNEL),
        ({STEM: None, 'another': np.zeros(1, 'f4')}, 'another'),
    ],
)
def test_what_is_no_r3d_is_refused(tmp_path, variables, changes, seen):
    kept = {k: v for k, v in (variables | changes).items() if v is not None}
    write_checkpoint(tmp_path / 'x', kept)
    with pytest.raises(ValueError, match=seen):
        convert_tf_checkpoint(tmp_path / 'x')


def archive(folder: Path, *names: str, link: str = '') -> Path:
    with tarfile.open(folder / 'x.tar.gz', 'w:gz') as tar:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = 10_000 * (not link)
            member.type, member.linkname = tarfile.SYMTYPE if link else tarfile.REGTYPE, link
            tar.addfile(member, io.BytesIO(np.random.default_rng(0).bytes(member.size)))
    return folder / 'x.tar.gz'


def changed(path: Path) -> Path:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    'make',
    [
        lambda folder: folder,  # empty
        lambda folder: archive(folder, 'a/x.index', 'b/x.index'),
        lambda folder: archive(folder, 'x.index'),  # of random bytes
        lambda folder: changed(archive(folder, 'x.index')),
        lambda folder: archive(folder, 'x.index', link='/etc/passwd'),
        lambda folder: archive(folder, '../../evil.index'),
    ],
)
def test_damaged_files_are_refused_and_write_nothing(tmp_path, make, monkeypatch):
    (tmp_path / 'temp').mkdir()
    monkeypatch.setattr('tempfile.tempdir', str(tmp_path / 'temp'))
    (tmp_path / 'in').mkdir()
    with pytest.raises(ValueError, match=str(tmp_path)):
        convert_tf_checkpoint(make(tmp_path / 'in'))
    assert not {path.name for path in tmp_path.rglob('*')} - {'temp', 'in', 'x.tar.gz'}
