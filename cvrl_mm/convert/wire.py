"""A reader of the subset of protobuf's wire format that the index of a checkpoint uses."""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def read_varint(buffer: bytes, at: int) -> tuple[int, int]:
    """Read a variable-length integer.

    Args:
        buffer: Serialised data.
        at: Position of the integer.

    Returns:
        The integer and the position after it.

    Raises:
        ValueError: The buffer ends within the integer, or the integer has more than 64 bits.
    """
    value = 0
    for shift in range(0, 64, 7):
        if at >= len(buffer):
            raise ValueError(f'The data ends within an integer, at byte {at}.')
        byte = buffer[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
    raise ValueError(f'The integer that ends at byte {at} has more than 64 bits.')


def read_message(buffer: bytes) -> dict[int, list[int | bytes]]:
    """Split a message into its fields.

    Args:
        buffer: A serialised message.

    Returns:
        For each field number, its values in order: integers, or bytes for strings and messages.

    Raises:
        ValueError: The buffer is not a valid message.
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
            raise ValueError(f'A field has the unknown wire type {kind}.')
        if at > len(buffer):
            raise ValueError(f'Field {tag >> 3} is truncated.')
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def integer(fields: dict[int, list[int | bytes]], number: int, default: int = 0) -> int:
    """Return the value of an integer field.

    Raises:
        ValueError: The field holds bytes.
    """
    value = fields.get(number, [default])[0]
    if isinstance(value, bytes):
        raise ValueError(f'Field {number} holds bytes instead of an integer.')
    return value


def messages(fields: dict[int, list[int | bytes]], number: int) -> list[bytes]:
    """Return the values of a field of strings or messages, in order.

    Raises:
        ValueError: The field holds integers.
    """
    values = fields.get(number, [])
    found = [value for value in values if isinstance(value, bytes)]
    if len(found) < len(values):
        raise ValueError(f'Field {number} holds integers instead of bytes.')
    return found
