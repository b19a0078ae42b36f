import pytest

from cvrl_mm.convert.locate_weights import locate_weights


def test_a_folder_holds_one_of_two_names(tmp_path):
    with pytest.raises(FileNotFoundError, match=r'neither encoder\.safetensors nor encoder\.pth'):
        locate_weights(tmp_path)
    for name in ('encoder.pth', 'encoder.safetensors'):  # the safer format is preferred
        (tmp_path / name).touch()
        assert locate_weights(tmp_path) == tmp_path / name


@pytest.mark.parametrize('name', ['r3d.tar.gz', 'r3d.tgz', 'r3d-1.index', 'r3d-1'])
def test_checkpoints_of_tensorflow_must_be_converted(tmp_path, name):
    (tmp_path / 'r3d-1.index').touch()
    path = tmp_path / name
    with pytest.raises(ValueError, match=rf'convert_checkpoint\.py tf {path} OUT\.pth'):
        locate_weights(path)


def test_an_address_that_does_not_answer_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv('TORCH_HOME', str(tmp_path))
    address = 'http://127.0.0.1:9/encoder.pth'
    with pytest.raises(OSError, match=rf'{address} cannot be downloaded: .*refused'):
        locate_weights(address)
    with pytest.raises(ValueError, match='names no file'):
        locate_weights('http://127.0.0.1:9/')
