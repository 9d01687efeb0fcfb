"""Arrays of numbers in MATLAB files, read by SciPy after a check that it lacks: what it does not know ends the process.

A file is a header of 128 bytes and *elements*: a type and a size, each of 4 bytes, and the content. An array is an
element whose content is elements again: flags, dimensions, name, numbers, and more numbers if it is complex.
Source: MathWorks, "MAT-File Format", chapter 1.
"""

import io
import struct
import zlib
from collections.abc import Iterator

import numpy as np

from jaxfit.files.limits import Source, limits

HEADER = 128
ARRAY, COMPRESSED = 14, 15  # types of elements
PLAIN = {*range(1, 8), 9, 12, 13, 16, 17, 18}  # those of numbers and of text
NUMERIC = range(6, 16)  # classes of arrays
COMPLEX = 8  # a flag of an array
NAMES = {"double", "single", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))}
# what SciPy and this module raise where a file is damaged, or of a version that SciPy does not read; MemoryError as
# well, since a damaged header can declare an array of any size
DAMAGED = (
    OSError, ValueError, TypeError, NotImplementedError, IndexError, KeyError, OverflowError, MemoryError, struct.error,
    zlib.error,
)  # fmt: skip


def names_of(data: bytes, path: Source = "") -> list[str]:
    """Return the names of a file's arrays.

    Args:
        path: path of the file, for messages.

    Raises:
        ValueError: the file is damaged; SciPy may also raise whatever else of `DAMAGED` for it.
        UserError: it expands beyond `jaxfit.files.limits`.
    """
    return list(_kinds(data, path))


def arrays_of(data: bytes, path: Source = "") -> dict[str, np.ndarray | None]:
    """Return a file's arrays by name; None for one that holds no numbers, which is not read.

    Raises as `names_of`.
    """
    import scipy.io  # here, as it takes a while, and other files do not need it

    kinds = _kinds(data, path)
    found = scipy.io.loadmat(io.BytesIO(data), variable_names=[name for name in kinds if kinds[name] in NAMES])
    return {name: found.get(name) for name in kinds}


def _kinds(data: bytes, path: Source) -> dict[str, str]:
    """Return the classes of a file's arrays by name."""
    import scipy.io

    try:
        # 1 is for versions 5 to 7
        if scipy.io.matlab.matfile_version(io.BytesIO(data))[0] == 1 and not _all_intact(data, path):
            raise ValueError("it is damaged")
        found = scipy.io.whosmat(io.BytesIO(data))
    except scipy.io.matlab.MatReadError as error:
        raise ValueError(str(error)) from None
    kinds = {name: kind for name, _, kind in found}
    if len(kinds) < len(found):
        raise ValueError("two of its arrays have the same name")
    return kinds


def _all_intact(data: bytes, path: Source) -> bool:
    """Return whether all arrays of numbers have the elements that they need, of known types."""
    order = ">" if data[HEADER - 2 : HEADER] == b"MI" else "<"
    size, known = 0, limits()
    for kind, content in _elements(data[HEADER:], order):
        elements = [(kind, content)]
        if kind == COMPRESSED:
            stream = zlib.decompressobj()
            content = stream.decompress(content, known.largest(len(data)) - size + 1)
            size += len(content)
            known.require_expansion(size, len(data), ".mat", path)
            elements = list(_elements(content, order))
        if (kind == COMPRESSED and not stream.eof) or not all(_is_intact(*element, order) for element in elements):
            return False
    return True


def _is_intact(kind: int, content: bytes, order: str) -> bool:
    if kind != ARRAY:
        return kind in PLAIN
    parts = list(_elements(content, order))
    if not parts:
        return True
    flags = struct.unpack_from(f"{order}I", parts[0][1])[0]
    if flags & 0xFF in NUMERIC:
        numbers = [kind for kind, _ in parts[3:]]
        return len(numbers) == 1 + bool(flags >> 8 & COMPLEX) and PLAIN.issuperset(numbers)
    return True


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
