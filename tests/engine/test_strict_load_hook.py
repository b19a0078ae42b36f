from pathlib import Path

import pytest
import torch
from mmengine.runner import Runner

from tests.toy import ToyModel, toy_runner


def runner(folder: Path, **kwargs: object) -> Runner:
    return toy_runner(folder, custom_hooks=[dict(type='StrictLoadHook')], **kwargs)


@pytest.mark.parametrize('lacks', [None, 'norm.weight'])
def test_tests_whole_networks_alone_and_trains_from_parts(lacks: str | None, tmp_path: Path):
    weights = ToyModel().state_dict()
    weights.pop(lacks, None)
    torch.save(dict(state_dict=weights), tmp_path / 'a.pth')
    tested = runner(tmp_path, load_from=str(tmp_path / 'a.pth'))
    if lacks:
        with pytest.raises(
            RuntimeError, match=rf'a\.pth does not fit ToyModel.* 1 missing: {lacks}'
        ):
            tested.load_or_resume()  # as Runner.test does
    else:
        tested.load_or_resume()
        assert torch.equal(tested.model.layer.weight, weights['layer.weight'])
    runner(tmp_path, load_from=str(tmp_path / 'a.pth')).train()
