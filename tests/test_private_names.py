"""Private names of other packages that this one uses or replaces: each exists as expected.

A new private name gets a line here, with the reason where it is used.
"""

import importlib
import inspect
import sys
from pathlib import Path

import pytest
import torch

from tests.processes import run_program

# Module, name in it, and its parameters (None: not a function written in Python).
NAMES = [
    # compat.py
    ('mmengine.config', 'Config._get_cfg_path', 'cfg_path filename'),
    ('mmengine.config.utils', 'MODULE2PACKAGE', None),
    ('mmengine.runner', 'Runner.resume', 'self filename resume_optimizer ... map_location'),
    # cpu_ranks.py
    ('mmengine.dist.utils', '_init_dist_pytorch', 'backend init_backend **kwargs'),
    ('mmengine.model', 'MMDistributedDataParallel.__init__', 'self module ... **kwargs'),
    ('torch.nn', 'SyncBatchNorm.forward', 'self input'),
    (
        'torch.nn.parallel',
        'DistributedDataParallel._passing_sync_batchnorm_handle',
        'self module_copies|module',
    ),
    # weights_only.py
    ('mmengine.runner', 'CheckpointLoader.load_checkpoint', 'filename map_location logger'),
    # engine/
    ('mmengine.runner.loops', '_InfiniteDataloaderIterator.__init__', 'self dataloader'),
    ('mmengine.hooks', 'CheckpointHook._save_checkpoint_with_step', 'self runner step meta'),
    ('mmengine.hooks', 'CheckpointHook._save_best_checkpoint', 'self runner metrics'),
    ('mmengine.logging', 'MessageHub._set_resumed_keys', 'self key resumed'),
    ('torch', '_C.PyTorchFileReader', None),
    ('torch', '_foreach_norm', None),
    # datasets/, models/, mmcv_ops.py
    ('mmengine.dataset', 'BaseDataset._serialize_data', 'self'),
    ('mmaction.models.backbones', 'ResNet3d._freeze_stages', None),
    ('torch.nn.modules.utils', '_pair', None),
    ('torch.nn.modules.utils', '_triple', None),
]
# Attributes that are set when an object is built: the class whose __init__ sets them.
SET_IN_INIT = [
    ('mmengine.runner', 'Runner', '_train_loop _resume _load_from'),
    ('mmengine.runner.loops', '_InfiniteDataloaderIterator', '_dataloader _iterator _epoch'),
    ('mmengine.dataset', 'BaseDataset', '_fully_initialized'),
]
# As they are without this package, which replaces some of them.
SIGNATURE = """
import importlib, inspect, sys
for line in sys.stdin.read().splitlines():
    module, name = line.split()
    value = importlib.import_module(module)
    for part in name.split('.'):
        value = getattr(value, part)
    try:
        print(line, *map(str, inspect.signature(value).parameters.values()), sep='|')
    except ValueError:
        print(line)
"""


@pytest.fixture(scope='module')
def parameters() -> dict[tuple[str, str], list[str]]:
    """The parameters of each function, of the installed packages as they are."""
    code = SIGNATURE.replace(
        'sys.stdin.read().splitlines()',
        repr([f'{module} {name}' for module, name, wanted in NAMES if wanted]),
    )
    run = run_program([sys.executable, '-W', 'ignore', '-c', code])
    assert run.returncode == 0, run.stderr
    found = {}
    for line in run.stdout.splitlines():
        if '|' in line:
            key, *given = line.split('|')
            found[tuple(key.split())] = [p.partition(':')[0].partition('=')[0] for p in given]
    return found


@pytest.mark.parametrize(('module', 'name', 'wanted'), NAMES, ids=[n for _, n, _ in NAMES])
def test_a_name_is_as_expected(module: str, name: str, wanted: str | None, parameters: dict):
    if wanted is None:
        value = importlib.import_module(module)
        for part in name.split('.'):
            value = getattr(value, part)
        return
    given = parameters[module, name]
    head, _, tail = wanted.partition(' ... ')
    for parameter, names in zip(given, head.split(), strict=False):
        assert parameter in names.split('|')
    assert given[-1] in tail.split() if tail else len(given) == len(head.split())


@pytest.mark.parametrize(
    ('module', 'owner', 'names'), SET_IN_INIT, ids=[n for _, n, _ in SET_IN_INIT]
)
def test_an_attribute_is_set_as_expected(module: str, owner: str, names: str):
    source = Path(inspect.getsourcefile(importlib.import_module(module))).parent
    (text,) = [
        text for text in map(Path.read_text, source.glob('*.py')) if f'\nclass {owner}' in text
    ]
    body = text[text.index(f'\nclass {owner}') :]
    for name in names.split():
        assert f'self.{name} = ' in body or f'self.{name}: ' in body, name


def test_a_reader_of_torch_refuses_a_damaged_file(tmp_path: Path):
    """``_C.PyTorchFileReader`` stands where any error means that a checkpoint is damaged."""
    torch.save(dict(w=torch.ones(3)), tmp_path / 'whole.pth')
    torch._C.PyTorchFileReader(str(tmp_path / 'whole.pth'))
    (tmp_path / 'cut.pth').write_bytes((tmp_path / 'whole.pth').read_bytes()[:-100])
    with pytest.raises(RuntimeError):
        torch._C.PyTorchFileReader(str(tmp_path / 'cut.pth'))


def test_norms_of_several_tensors_are_those_of_each():
    tensors = [torch.tensor([3.0, 4.0]), torch.tensor([[5.0], [12.0]])]
    assert torch.stack(torch._foreach_norm(tensors)).tolist() == [5, 13]
