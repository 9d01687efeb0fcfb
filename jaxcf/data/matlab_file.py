"""A check of MATLAB files (versions 5 to 7) that SciPy lacks: what it does not know ends the process there.

A file is a header of 128 bytes and *elements*: a type and a size, each of 4 bytes, and the content. An array is an
element whose content is elements again: flags, dimensions, name, numbers, and more numbers if it is complex.
Source: MathWorks, "MAT-File Format", chapter 1.
"""

import struct
import zlib
from collections.abc import Iterator

HEADER = 128
ARRAY, COMPRESSED = 14, 15  # types of elements
PLAIN = {*range(1, 8), 9, 12, 13, 16, 17, 18}  # those of numbers and of text
CLASSES, NUMERIC = range(1, 18), range(6, 16)  # of arrays
COMPLEX = 8  # a flag of an array


def is_intact(data: bytes) -> bool:
    """Return whether all arrays of a file have the elements that they need, of known types.

    Raises struct.error or zlib.error for some that have not.
    """
    order = ">" if data[HEADER - 2 : HEADER] == b"MI" else "<"
    return all(_is_intact(kind, content, order) for kind, content in _elements(data[HEADER:], order))


def _is_intact(kind: int, content: bytes, order: str) -> bool:
    if kind == COMPRESSED:
        return all(_is_intact(*element, order) for element in _elements(zlib.decompress(content), order))
    if kind != ARRAY:
        return kind in PLAIN
    parts = list(_elements(content, order))
    if not parts:
        return True
    flags = struct.unpack_from(f"{order}I", parts[0][1])[0]
    if flags & 0xFF in NUMERIC:
        numbers = [kind for kind, _ in parts[3:]]
        return len(numbers) == 1 + bool(flags >> 8 & COMPLEX) and PLAIN.issuperset(numbers)
    return flags & 0xFF in CLASSES and all(_is_intact(*part, order) for part in parts)


def _elements(data: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        kind, size = struct.unpack_from(f"{order}II", data, at)
        start = at + 8
        if kind >> 16:  # up to 4 bytes of content, in place of the size
            kind, size, start = kind & 0xFFFF, kind >> 16, at + 4
        if start + size > len(data):
            raise struct.error("an element is longer than what holds it")
        yield kind, data[start : start + size]
        at = start + size if kind == COMPRESSED else -(-(start + size) // 8) * 8
