import numpy as np
import pytest

from cvrl_mm.convert.crc32c import crc32c, masked_crc32c


def crc32c_by_bits(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ('data', 'expected'),
    [
        (b'123456789', 0xE3069283),
        (bytes(32), 0x8A9136AA),  # this and the next two: RFC 3720, B.4
        (b'\xff' * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (b'', 0),
    ],
)
def test_known_values(data, expected):
    assert crc32c(data) == expected


@pytest.mark.parametrize('size', [1, 3, 4, 5, 255, 256, 257, 1024, 5000, 65537])
def test_any_length_matches_the_definition(size):
    data = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    assert crc32c(data) == crc32c(data.tobytes()) == crc32c_by_bits(data.tolist())


def test_mask():
    crc = 0xE3069283
    assert masked_crc32c(b'123456789') == (((crc >> 15) | (crc << 17)) + 0xA282EAD8) % 2**32
