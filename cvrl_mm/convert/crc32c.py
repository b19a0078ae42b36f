"""The checksum of TensorFlow's files."""

import numpy as np


def masked_crc32c(data: bytes | np.ndarray) -> int:
    """Compute the CRC-32C as TensorFlow stores it: rotated, and a constant added.

    Args:
        data: Bytes, or a uint8 array.

    Raises:
        ImportError: google-crc32c is not installed.
    """
    try:
        import google_crc32c
    except ImportError as error:
        raise ImportError(
            'The checksums of TensorFlow files need google-crc32c: pip install google-crc32c.'
        ) from error
    crc = google_crc32c.value(bytes(data))
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
