import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

from cvrl_mm.convert import convert_tf_checkpoint, save_weights
from cvrl_mm.convert.tensor_bundle import TensorBundle
from cvrl_mm.models import R3DSlow
from tests.convert.tf_files import Variable, write_checkpoint

DATA = Path(__file__).parents[1] / 'data' / 'released_backbone'
NAME = 'r3d_50_w0.125_backbone-1'
SUFFIX = '/.ATTRIBUTES/VARIABLE_VALUE'


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
    for number, feats in enumerate(stages, start=2):
        feats = feats.permute(0, 2, 3, 4, 1).numpy()
        largest = golden[f'stage{number}{suffix}_max']
        error = np.abs(feats.ravel()[::11] - golden[f'stage{number}{suffix}']).max() / largest
        assert error < 1e-5, f'stage {number}'
        assert np.abs(feats).max() == pytest.approx(largest, rel=1e-5)


def test_symmetric_padding_would_be_far_off(converted, golden, clips):
    net = R3DSlow(50, width=0.125).eval()
    net.load_state_dict(
        {k.removeprefix('backbone.'): v for k, v in converted['state_dict'].items()}
    )
    with torch.no_grad():
        feats = net(clips['x']).permute(0, 2, 3, 4, 1).numpy()
    error = np.abs(feats.ravel()[::11] - golden['stage5']).max() / golden['stage5_max']
    assert error > 0.3


def test_checkpoint_fits_strictly_and_says_where_it_is_from(tmp_path, converted):
    file = save_weights(converted, tmp_path / 'out.pth')
    loaded = torch.load(file, weights_only=True)
    assert loaded['meta'] == dict(
        source=NAME,
        depth=50,
        width=0.125,
        padding='tf_same',
        left_over=['_CHECKPOINTABLE_OBJECT_GRAPH', f'save_counter{SUFFIX}'],
    )
    keys = [k.removeprefix('backbone.') for k in loaded['state_dict']]
    assert keys == list(R3DSlow(50, width=0.125).state_dict())


def test_the_archive_as_downloaded(tmp_path, converted):
    archive = tmp_path / 'r3d_1x_k400_800ep.tar.gz'
    with tarfile.open(archive, 'w:gz') as tar:
        tar.add(DATA, arcname='r3d_1x_k400_800ep')
    again = convert_tf_checkpoint(archive)
    assert again['meta']['source'] == archive.name
    for key, tensor in converted['state_dict'].items():
        assert torch.equal(again['state_dict'][key], tensor), key


@pytest.mark.parametrize('damage', ['is damaged', 'truncated'])
def test_one_changed_byte_or_a_short_file_names_the_variable(tmp_path, damage):
    for file in DATA.glob(f'{NAME}.*'):
        shutil.copyfile(file, tmp_path / file.name)
    name = f'backbone/layer_with_weights-9/_spatial_conv/kernel{SUFFIX}'
    data = tmp_path / f'{NAME}.data-00000-of-00001'
    content = bytearray(data.read_bytes())
    entry = TensorBundle(tmp_path / NAME).entries[name]
    if damage == 'is damaged':
        content[entry.offset + 5] ^= 1
    else:  # the variables that lie behind it are cut off as well, but read later
        del content[entry.offset + entry.num_bytes - 1 :]
    data.write_bytes(content)
    with pytest.raises(ValueError, match=f'{name} .*{damage}'):
        convert_tf_checkpoint(tmp_path / NAME)


@pytest.fixture
def variables():
    bundle = TensorBundle(DATA / NAME)
    return {
        name: Variable.of(bundle.read(name).numpy())
        for name in bundle.entries
        if name.startswith('backbone/')
    }


def test_missing_variables_are_named(tmp_path, variables):
    gone = [f'backbone/layer_with_weights-{n}{SUFFIX}' for n in ('5/_norm0/beta', '1/gamma')]
    for name in gone:
        del variables[name]
    write_checkpoint(tmp_path / 'x', variables)
    with pytest.raises(ValueError, match='lacks 2 of the 265') as raised:
        convert_tf_checkpoint(tmp_path / 'x')
    assert all(name in str(raised.value) for name in gone)


def test_misshapen_variable_is_named(tmp_path, variables):
    name = f'backbone/layer_with_weights-10/_temporal_conv/kernel{SUFFIX}'
    variables[name] = Variable(bytes(4 * 128 * 32), (1, 1, 1, 128, 32))
    write_checkpoint(tmp_path / 'x', variables)
    with pytest.raises(ValueError, match=rf'{name} has shape \(1, 1, 1, 128, 32\), but .* \(3,'):
        convert_tf_checkpoint(tmp_path / 'x')


def test_misshapen_stem_is_named(tmp_path, variables):
    name = f'backbone/layer_with_weights-0/kernel{SUFFIX}'
    variables[name] = Variable(bytes(4), ())
    write_checkpoint(tmp_path / 'x', variables)
    with pytest.raises(ValueError, match=rf'{name} has shape \(\)'):
        convert_tf_checkpoint(tmp_path / 'x')


@pytest.mark.parametrize(
    ('pattern', 'seen'), [('-0/kernel', 'lacks the stem'), ('-17/', 'has 15 blocks')]
)
def test_what_is_no_r3d_is_refused(tmp_path, variables, pattern, seen):
    kept = {k: v for k, v in variables.items() if f'weights{pattern}' not in k}
    write_checkpoint(tmp_path / 'x', kept)
    with pytest.raises(ValueError, match=seen):
        convert_tf_checkpoint(tmp_path / 'x')
