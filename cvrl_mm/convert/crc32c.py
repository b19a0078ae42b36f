"""The checksum of files of TensorFlow."""

import numpy as np


def masked_crc32c(data: bytes | np.ndarray) -> int:
    """Compute the masked CRC-32C of TensorFlow: rotated, with a constant added.

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
