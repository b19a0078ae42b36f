"""CRC-32C, the checksum of TensorFlow's files, at the speed of numpy."""

from functools import cache

import numpy as np

POLYNOMIAL = 0x82F63B78  # Castagnoli, bits reversed
LANE_WORDS = 64  # a power of two; a lane is 256 bytes


def crc32c(data: bytes | np.ndarray) -> int:
    """Compute the CRC-32C of bytes.

    The data is cut into lanes whose checksums advance together, four bytes a step, and are
    then joined pairwise: of neighbours, crc(ab) = crc(a followed by zeros) ^ crc(b).

    Args:
        data: Bytes, or a uint8 array.

    Returns:
        The checksum, as RFC 3720 defines it.
    """
    data = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data
    low, high = _step_tables()
    if data.size < 4:  # too short for the start value below
        return _crc32c_of_few(data)

    # Zeros in front leave a checksum that starts at 0 as it is, and to start at 0xffffffff
    # is to flip the first four bytes.
    padded = np.zeros(-(-data.size // (4 * LANE_WORDS)) * 4 * LANE_WORDS, np.uint8)
    padded[-data.size :] = data
    padded[padded.size - data.size :][:4] ^= 0xFF
    words = np.ascontiguousarray(padded.view('<u4').reshape(-1, LANE_WORDS).T)
    crcs = np.zeros(words.shape[1], np.uint32)
    for word in words:
        crcs ^= word
        crcs = low[crcs & 0xFFFF] ^ high[crcs >> 16]
    return int(_join(crcs)) ^ 0xFFFFFFFF


def masked_crc32c(data: bytes | np.ndarray) -> int:
    """Compute the CRC-32C as TensorFlow stores it: rotated, and a constant added."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@cache
def _step_tables() -> tuple[np.ndarray, np.ndarray]:
    """What four zero bytes make of a checksum with only its low, or only its high half."""
    crcs = np.arange(1 << 16, dtype=np.uint32)
    halves = crcs, crcs << np.uint32(16)
    for half in halves:
        for _ in range(32):
            half[:] = half >> 1 ^ (half & 1) * np.uint32(POLYNOMIAL)
    return halves


def _crc32c_of_few(data: np.ndarray) -> int:
    crc = 0xFFFFFFFF
    for byte in data.tolist():
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (crc & 1) * POLYNOMIAL
    return crc ^ 0xFFFFFFFF


def _join(crcs: np.ndarray) -> np.uint32:
    """Join the checksums of consecutive lanes of equal length."""
    low, high = _step_tables()
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    advance = low[bits & 0xFFFF] ^ high[bits >> 16]  # each bit's image after 4 zero bytes
    for _ in range(LANE_WORDS.bit_length() - 1):
        advance = _apply(advance, advance)
    while crcs.size > 1:
        if crcs.size % 2:
            crcs = np.concatenate([np.zeros(1, np.uint32), crcs])
        crcs = _apply(advance, crcs[::2]) ^ crcs[1::2]
        advance = _apply(advance, advance)
    return crcs[0]


def _apply(images: np.ndarray, crcs: np.ndarray) -> np.ndarray:
    """Map checksums by the linear map that sends bit i to ``images[i]``."""
    out = np.zeros_like(crcs)
    for i, image in enumerate(images):
        out ^= (crcs >> np.uint32(i) & np.uint32(1)) * image
    return out
