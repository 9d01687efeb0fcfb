"""Mutations of files: damage, the habits of other programs, and what nobody would write.

A mutation is a function of a file's bytes and a NumPy Generator. `mutate` composes one to four of them.
"""

import bz2
import gzip
import io
import json
import lzma
import re
import warnings
import zipfile
from functools import partial

import numpy as np
import scipy.io

from jaxcf.data.formats.matlab_file import arrays_of

TOKENS = [
    token.encode()
    for token in (
        "", " ", "0", "-1", "3", "2.5", "1e308", "1e999", "-1e999", "nan", "NaN", "inf", "-inf", "9" * 19, "9" * 400,
        "0x1f", "1_000", "2,5", "+3", "007", "-0", "1e-320", "\0", "\ufeff", "\u00a0", "\u3000", "\u2028", "\u0085",
        "\x1c", "\x0b", "٣", "²", "é", "😀", "e\u0301", '"', "'", "::", ":", ";", ",", "\t", "|", "\r", "\n", "\\", "#",
        "=", "*", "null", "true", "none", "2005-09-06", "2005-09-06 10:00:00", "9999-99-99", "1:", "<unk>", "<eos>",
        "<s>", "</s>", "\\end\\", "\\2-grams:", "user,item,stars", "{}", "[]", "../x", "x" * 3000,
    )
] + [b"\xff", b"\xe9", b"\xf0\x9f", b"\xed\xa0\x80"]  # fmt: skip
VALUES = [None, True, -1, 0, 10**30, 1e308, "", "x", "1", [], [1, 2], {}, {"a": 1}, [[]], "é" * 200]  # of JSON
NUMBERS = [np.nan, np.inf, -np.inf, -1, 0, 2**31 - 1, -(2**31), 2**62, 1e300, 0.5]  # of arrays
TYPES = ["i1", "i4", "i8", "u8", "f4", "f8", "?", "c16", "S3", "U3", "M8[s]", ">i4"]


def _place(content, rng):
    """Draw a position in a file, and one after it, near it more often than not."""
    start = int(rng.integers(len(content) + 1))
    return start, min(len(content), start + int(rng.geometric(0.2)))


def truncate(content, rng):
    return content[: rng.integers(len(content) + 1)]


def flip_bit(content, rng):
    if not content:
        return content
    changed = bytearray(content)
    changed[rng.integers(len(changed))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def remove(content, rng):
    start, end = _place(content, rng)
    return content[:start] + content[end:]


def insert(content, rng):
    start, _ = _place(content, rng)
    return content[:start] + TOKENS[rng.integers(len(TOKENS))] + content[start:]


def overwrite(content, rng):
    start, end = _place(content, rng)
    return content[:start] + rng.bytes(end - start) + content[end:]


def repeat(content, rng):
    start, end = _place(content, rng)
    return content[:end] + content[start:end] * int(rng.choice([1, 2, 50])) + content[end:]


def long_line(content, rng):
    start, end = _place(content, rng)
    return content[:end] + content[start:end] * (30_000 // max(1, end - start)) + content[end:]


BYTES = [truncate, flip_bit, remove, insert, overwrite, repeat]


def _of_lines(change):
    """Make a mutation from a function that changes the list of a file's lines."""

    def mutation(content, rng):
        lines = content.split(b"\n")
        change(lines, int(rng.integers(len(lines))), rng)
        return b"\n".join(lines)

    return mutation


@_of_lines
def remove_line(lines, at, rng):
    del lines[at]


@_of_lines
def repeat_line(lines, at, rng):
    lines[at:at] = lines[at : at + 1] * int(rng.choice([1, 1, 1, 300]))


@_of_lines
def move_line(lines, at, rng):
    lines.insert(int(rng.integers(len(lines))), lines.pop(at))


@_of_lines
def blank_line(lines, at, rng):
    lines.insert(at, [b"", b"  ", b"\t", b"\r", "\u3000".encode()][rng.integers(5)])


@_of_lines
def first_lines(lines, at, rng):
    del lines[int(rng.integers(1, 3)) :]
    lines.append(b"")


@_of_lines
def token_line(lines, at, rng):
    lines[at] = TOKENS[rng.integers(len(TOKENS))]


def _of_fields(change):
    """Make a mutation from a function that changes the list of a line's fields, with what separates them."""

    def mutation(content, rng):
        lines = content.split(b"\n")
        at = int(rng.integers(len(lines)))
        fields = re.split(rb"(::|[\t,;| =:])", lines[at])
        change(fields, 2 * int(rng.integers((len(fields) + 1) // 2)), rng)
        lines[at] = b"".join(fields)
        return b"\n".join(lines)

    return mutation


@_of_fields
def token_field(fields, at, rng):
    fields[at] = TOKENS[rng.integers(len(TOKENS))]


@_of_fields
def empty_field(fields, at, rng):
    fields[at] = b""


@_of_fields
def remove_field(fields, at, rng):
    del fields[at : at + 2]


@_of_fields
def repeat_field(fields, at, rng):
    fields[at:at] = [fields[at], fields[1] if len(fields) > 1 else b","]


@_of_fields
def move_field(fields, at, rng):
    other = 2 * int(rng.integers((len(fields) + 1) // 2))
    fields[at], fields[other] = fields[other], fields[at]


@_of_fields
def quote_field(fields, at, rng):
    fields[at] = b'"' + fields[at] + rng.choice([b'"', b"", b'""']).item()


def mark_order(content, rng):
    return b"\xef\xbb\xbf" + content


def line_ends(content, rng):
    return content.replace(b"\n", [b"\r\n", b"\r", b"\n\r", b"\0", b"\n\n"][rng.integers(5)])


def separators(content, rng):
    other = [b",", b"\t", b" ", b";", b"::", b"|", b"  ", "\u00a0".encode()][rng.integers(8)]
    return re.sub(rb"::|[\t,;| ]", lambda _: other, content)


def recode(content, rng):
    encoding = ["utf-16", "utf-16-le", "utf-32", "latin-1", "cp037", "shift_jis"][rng.integers(6)]
    return content.decode("latin-1").encode(encoding, "replace")


def compress(content, rng):
    return [partial(gzip.compress, compresslevel=1, mtime=0), bz2.compress, lzma.compress][rng.integers(3)](content)


def archive(content, rng):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as zipped:
        zipped.writestr("inside.txt", content)
    return file.getvalue()


def damage_compressed(content, rng):
    return [flip_bit, truncate][rng.integers(2)](compress(content, rng), rng)


LINES = [remove_line, repeat_line, move_line, blank_line, first_lines, token_line]
FIELDS = [token_field, token_field, token_field, empty_field, remove_field, repeat_field, move_field, quote_field]
FILES = [mark_order, line_ends, separators, recode, compress, archive, damage_compressed, long_line]


def change_json(content, rng):
    """Replace, remove or repeat one value of a JSON file."""
    try:
        whole = json.loads(content)
    except ValueError:
        return flip_bit(content, rng)
    places = []

    def collect(value):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            places.append((value, key))
            if isinstance(value[key], dict | list):
                collect(value[key])

    if isinstance(whole, dict | list):
        collect(whole)
    if not places or rng.integers(50) == 0:
        return json.dumps(VALUES[rng.integers(len(VALUES))]).encode()
    container, key = places[rng.integers(len(places))]
    kind = rng.integers(5)
    if kind == 0:
        del container[key]
    elif kind == 1 and isinstance(container, dict):
        container[TOKENS[rng.integers(len(TOKENS))].decode(errors="replace")] = container[key]
    elif kind == 2 and isinstance(container[key], int | float):
        container[key] = float(rng.choice(NUMBERS))
    else:
        container[key] = VALUES[rng.integers(len(VALUES))]
    return json.dumps(whole).encode()


def _change_array(array, rng):
    """Change the type, the shape or one value of an array."""
    kind = rng.integers(6)
    if kind == 0:
        return array.astype(TYPES[rng.integers(len(TYPES))])
    if kind == 1:
        return array.reshape([(-1,), (-1, 1), (1, -1)][rng.integers(3)])
    if kind == 2:
        return array.ravel()[: rng.integers(array.size + 1)]
    if kind == 3:
        return np.concatenate([array.ravel(), array.ravel()])
    if kind == 4 or array.size == 0:
        return np.array(NUMBERS[rng.integers(len(NUMBERS))])
    changed = array.copy()
    value = np.array(NUMBERS[rng.integers(len(NUMBERS))])
    changed.flat[rng.integers(array.size)] = value.astype(array.dtype)
    return changed


def _change_arrays(arrays, rng):
    name = list(arrays)[rng.integers(len(arrays))]
    try:
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            changed = _change_array(arrays[name], rng)
    except (ValueError, TypeError, OverflowError, RuntimeError):  # no such value of this type
        return {k: v for k, v in arrays.items() if k != name}
    return {**arrays, name: changed}


def change_npz(content, rng):
    """Change one array of an .npz file, or remove it."""
    try:
        with np.load(io.BytesIO(content)) as file:
            arrays = dict(file)
    except Exception:  # damaged already
        arrays = {}
    if not arrays:
        return flip_bit(content, rng)
    out = io.BytesIO()
    np.savez(out, allow_pickle=False, **_change_arrays(arrays, rng))
    return out.getvalue()


def declare_npz(content, rng):
    """Let an .npz file declare sizes that it does not hold, or compress it."""
    if rng.integers(4) == 0:
        try:
            with np.load(io.BytesIO(content)) as file:
                out = io.BytesIO()
                np.savez_compressed(out, **file)
                return out.getvalue()
        except Exception:  # damaged already
            return flip_bit(content, rng)
    size = [b"9" * 18, b"1000000000", b"0", b"-1", b"9" * 40][rng.integers(5)]
    headers = list(re.finditer(rb"'shape': \([^\n]*", content))
    if not headers:
        return flip_bit(content, rng)
    chosen = headers[rng.integers(len(headers))]
    declared = (b"'shape': (%s,), }" % size).ljust(len(chosen[0]))[: len(chosen[0])]
    return content[: chosen.start()] + declared + content[chosen.end() :]


def change_mat(content, rng):
    """Change one array of a MATLAB file, or remove it."""
    out = io.BytesIO()
    try:
        arrays = {name: array for name, array in arrays_of(content).items() if array is not None}
        scipy.io.savemat(out, _change_arrays(arrays, rng))
    except Exception:  # damaged already, or a type that MATLAB lacks
        return flip_bit(content, rng)
    return out.getvalue()


# kind of file -> groups of mutations; each group is as probable as the others
KINDS = {
    "text": [BYTES, LINES, FIELDS, FILES],
    "json": [BYTES, [change_json], [change_json], [change_json]],
    "npz": [BYTES, [declare_npz], [change_npz], [change_npz], [change_npz]],
    "mat": [BYTES, [change_mat], [change_mat], [change_mat]],
    "bytes": [BYTES],
}


def mutate(content, kind, rng):
    """Return a file with one to four mutations of its kind."""
    groups = KINDS[kind]
    for _ in range(min(4, int(rng.geometric(0.5)))):
        group = groups[rng.integers(len(groups))]
        content = group[rng.integers(len(group))](content, rng)
    return content
