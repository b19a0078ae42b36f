import sys

import numpy as np
import pytest

from cvrl_mm.convert.crc32c import masked_crc32c


@pytest.mark.parametrize(
    ('data', 'crc'),
    [
        (b'123456789', 0xE3069283),
        (bytes(32), 0x8A9136AA),  # this and the next two: RFC 3720, B.4
        (b'\xff' * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (b'', 0),
    ],
)
def test_known_values(data, crc):
    masked = (((crc >> 15) | (crc << 17)) + 0xA282EAD8) % 2**32
    assert masked_crc32c(data) == masked_crc32c(np.frombuffer(data, np.uint8)) == masked


def test_the_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, 'google_crc32c', None)
    with pytest.raises(ImportError, match='pip install google-crc32c'):
        masked_crc32c(b'')
