import pytest
from mmaction.utils import register_all_modules

import cvrl_mm  # noqa: F401


@pytest.fixture(autouse=True)
def mmaction_scope():
    """Bare names resolve to MMAction2's registries, as they do within a runner."""
    register_all_modules()
