import pytest
from mmengine.registry import HOOKS

from cvrl_mm.engine import AtomicCheckpointHook, StrictLoadHook, WeightsOnlyCheckpointHook

OLD_NAMES = {
    'WholeCheckpointHook': AtomicCheckpointHook,
    'PlainCheckpointHook': WeightsOnlyCheckpointHook,
    'FittingCheckpointHook': StrictLoadHook,
}


@pytest.mark.parametrize('old', OLD_NAMES)
def test_configs_of_the_earlier_layout_build(old: str):
    with pytest.warns(FutureWarning, match=f'{old} is now called {OLD_NAMES[old].__name__}'):
        assert type(HOOKS.build(dict(type=old))) is OLD_NAMES[old]
