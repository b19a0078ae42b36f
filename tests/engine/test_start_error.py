import pytest

from cvrl_mm.cli import plain_errors
from cvrl_mm.engine.start_error import StartError


def test_ends_a_tool_with_its_sentence_alone():
    with pytest.raises(SystemExit, match=r': another run uses the folder\.$'), plain_errors():
        raise StartError('another run uses the folder.')
