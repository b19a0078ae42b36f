"""What comes from elsewhere loads as weights, or is refused with a sentence."""

import functools
import http.server
import os
import pickle
import sys
import threading
import zipfile
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mmengine.model import BaseModule
from mmengine.runner import CheckpointLoader, load_checkpoint

from cvrl_mm.weights_only import refuse_foreign_code
from tests.processes import run_program
from tests.toy import toy_runner

FUZZ = settings(
    derandomize=True,
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


ALONE = """
import cvrl_mm
from mmengine.runner import CheckpointLoader
from mmengine.runner.loops import _InfiniteDataloaderIterator
for function in (CheckpointLoader.load_checkpoint, _InfiniteDataloaderIterator.__init__):
    assert function.__module__.startswith('mmengine.'), function
"""


@pytest.fixture(autouse=True)
def weights_only() -> None:
    refuse_foreign_code()


def test_importing_the_package_alone_changes_no_loading():
    run = run_program([sys.executable, '-W', 'ignore', '-c', ALONE])
    assert run.returncode == 0, run.stderr


class Trap:
    """Unpickled, it leaves a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    torch.save(dict(state_dict={}, trap=Trap(tmp_path / 'sprung')), tmp_path / 'foreign.pth')
    yield tmp_path / 'foreign.pth'
    assert not (tmp_path / 'sprung').exists()


REFUSAL = r'foreign\.pth is not loaded: .* reading it would run \S+\. If you trust'


def test_load_from_refuses_code(trap: Path, tmp_path: Path):
    with pytest.raises(pickle.UnpicklingError, match=REFUSAL) as error:
        toy_runner(tmp_path / 'a', load_from=str(trap)).train()
    assert len(str(error.value).splitlines()) == 1


def test_init_cfg_refuses_code(trap: Path):
    module = BaseModule(init_cfg=dict(type='Pretrained', checkpoint=str(trap)))
    with pytest.raises(pickle.UnpicklingError, match=REFUSAL):
        module.init_weights()
    prefixed = dict(type='Pretrained', checkpoint=str(trap), prefix='backbone.')
    with pytest.raises(pickle.UnpicklingError, match=REFUSAL):
        BaseModule(init_cfg=prefixed).init_weights()


def test_refuses_code_where_torch_would_run_it(trap: Path, monkeypatch):
    """As torch before 2.6 does with every file."""
    stock = torch.load

    def old_load(*args: object, weights_only: bool | None = None, **kwargs: object) -> object:
        forced = os.environ.get('TORCH_FORCE_WEIGHTS_ONLY_LOAD') == '1'
        return stock(*args, weights_only=bool(weights_only) or forced, **kwargs)

    monkeypatch.setattr(torch, 'load', old_load)
    with pytest.raises(pickle.UnpicklingError, match=REFUSAL):
        load_checkpoint(torch.nn.Linear(1, 1), str(trap))


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def address(tmp_path: Path, monkeypatch):
    """Serves ``tmp_path`` to this machine alone."""
    monkeypatch.setenv('TORCH_HOME', str(tmp_path / 'cache'))
    handler = functools.partial(Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f'http://127.0.0.1:{server.server_port}'
        server.shutdown()


def test_an_address_on_the_network_is_trusted_no_more(trap: Path, address: str):
    with pytest.raises(pickle.UnpicklingError, match=REFUSAL):
        CheckpointLoader.load_checkpoint(f'{address}/foreign.pth')
    torch.save(dict(state_dict=dict(w=torch.ones(2))), trap.with_name('plain.pth'))
    loaded = CheckpointLoader.load_checkpoint(f'{address}/plain.pth')
    assert torch.equal(loaded['state_dict']['w'], torch.ones(2))


def test_an_archive_from_the_network_stays_in_its_folder(address: str, tmp_path: Path):
    """torch unpacks an archive that holds one file, as old model zoos have them."""
    torch.save(dict(w=torch.ones(2)), tmp_path / 'inner.pth', _use_new_zipfile_serialization=False)
    with zipfile.ZipFile(tmp_path / 'old.zip', 'w') as archive:
        archive.write(tmp_path / 'inner.pth', '../../../escaped.pth')
    with pytest.raises((pickle.UnpicklingError, OSError)):
        CheckpointLoader.load_checkpoint(f'{address}/old.zip')
    outside = {p for p in tmp_path.rglob('escaped.pth')} - set((tmp_path / 'cache').rglob('*.pth'))
    assert not outside


def test_a_missing_file_is_a_missing_file(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=r'nothing\.pth'):
        CheckpointLoader.load_checkpoint(str(tmp_path / 'nothing.pth'))


def test_a_trusted_file_loads_when_the_user_says_so(tmp_path: Path, monkeypatch):
    torch.save(dict(state_dict={}, note=functools.partial(int, '3')), tmp_path / 'own.pth')
    with pytest.raises(pickle.UnpicklingError, match=r'would run functools\.partial'):
        CheckpointLoader.load_checkpoint(str(tmp_path / 'own.pth'))
    monkeypatch.setenv('TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD', '1')
    assert CheckpointLoader.load_checkpoint(str(tmp_path / 'own.pth'))['note']() == 3


def loads_or_is_refused(path: Path) -> None:
    try:
        CheckpointLoader.load_checkpoint(str(path))
    except pickle.UnpicklingError as error:
        assert str(path) in str(error) and len(str(error)) < 600 + len(str(path))


@FUZZ
@given(content=st.binary(max_size=200) | st.binary(max_size=60).map(lambda b: b'\x80\x02' + b))
def test_any_file_is_a_checkpoint_or_refused(content: bytes, tmp_path: Path):
    (tmp_path / 'a.pth').write_bytes(content)
    loads_or_is_refused(tmp_path / 'a.pth')


@FUZZ
@given(
    place=st.integers(0, 10_000), damage=st.binary(min_size=1, max_size=20), zipped=st.booleans()
)
def test_any_damage_to_a_header_is_refused(place: int, damage: bytes, zipped: bool, tmp_path: Path):
    path = tmp_path / 'a.pth'
    torch.save(
        dict(state_dict=dict(w=torch.ones(3)), meta=dict(epoch=1)),
        path,
        _use_new_zipfile_serialization=zipped,
    )
    whole = path.read_bytes()
    start = place % len(whole)  # the length varies with the addresses in the file
    path.write_bytes(whole[:start] + damage + whole[start + len(damage) :])
    loads_or_is_refused(path)
