"""As much of protobuf's wire format as a checkpoint's index needs."""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def read_varint(buffer: bytes, at: int) -> tuple[int, int]:
    """Read the variable-length integer at ``at``.

    Returns:
        The integer, and where the next thing begins.

    Raises:
        ValueError: the buffer ends within the integer, or it is longer than 64 bits.
    """
    value = 0
    for shift in range(0, 64, 7):
        if at >= len(buffer):
            raise ValueError(f'it ends within an integer, at byte {at}.')
        byte = buffer[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
    raise ValueError(f'the integer that ends at byte {at} is longer than 64 bits.')


def read_message(buffer: bytes) -> dict[int, list[int | bytes]]:
    """Split a message into its fields.

    Args:
        buffer: A serialised message.

    Returns:
        For each field number its values in order: integers, or bytes for strings and messages.

    Raises:
        ValueError: the bytes are no such message.
    """
    fields: dict[int, list[int | bytes]] = {}
    value: int | bytes
    at = 0
    while at < len(buffer):
        tag, at = read_varint(buffer, at)
        kind = tag & 7
        if kind == VARINT:
            value, at = read_varint(buffer, at)
        elif kind in (FIXED64, FIXED32):
            length = 8 if kind == FIXED64 else 4
            value, at = int.from_bytes(buffer[at : at + length], 'little'), at + length
        elif kind == BYTES:
            length, at = read_varint(buffer, at)
            value, at = buffer[at : at + length], at + length
        else:
            raise ValueError(f'a field has the unknown wire type {kind}.')
        if at > len(buffer):
            raise ValueError(f'field {tag >> 3} is cut off.')
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def integer(fields: dict[int, list[int | bytes]], number: int, default: int = 0) -> int:
    """Take a field that holds one integer.

    Raises:
        ValueError: it holds bytes.
    """
    value = fields.get(number, [default])[0]
    if isinstance(value, bytes):
        raise ValueError(f'field {number} holds bytes where an integer belongs.')
    return value


def messages(fields: dict[int, list[int | bytes]], number: int) -> list[bytes]:
    """Take a field that holds strings or messages, in their order.

    Raises:
        ValueError: it holds integers.
    """
    values = fields.get(number, [])
    found = [value for value in values if isinstance(value, bytes)]
    if len(found) < len(values):
        raise ValueError(f'field {number} holds integers where bytes belong.')
    return found
