"""Files of plain arrays: .npz, and safetensors in their place on hubs, which may be damaged or anybody's; .npy."""

import gzip
import json
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from jaxfit.errors import UserError

# what NumPy and zipfile raise for a file that is no .npz file of plain arrays, or a damaged one
_DAMAGED = (
    OSError, ValueError, TypeError, KeyError, EOFError, RuntimeError, OverflowError, NotImplementedError,
    zipfile.BadZipFile, zlib.error, struct.error,
)  # fmt: skip
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def write_npy(file: IO[bytes] | gzip.GzipFile, array: NDArray[Any]) -> None:
    """Write an array to an open file, in the format `.npy`.

    Where a disk is full, `numpy.save` may lose the end of the array without an error, as it goes around the file.
    """
    writer: Any = SimpleNamespace(write=file.write)
    np.save(writer, array, allow_pickle=False)


def read_npz(path: Path, what: str, do: str) -> dict[str, NDArray[Any]]:
    """Return all arrays of an .npz file by name, without unpickling, in no more memory than the file has bytes.

    Args:
        path: the file, as `numpy.savez` writes it: compressed ones are refused. Where there is none, the file of the
            same name that ends in `.safetensors` is read, as `to_safetensors` writes it.
        what: to say of a file that is damaged or no .npz file.
        do: what the user can do about it.

    Raises:
        FileNotFoundError: there is no such file.
        UserError: it is damaged, or declares more than it holds.
    """
    instead = path.with_suffix(".safetensors")
    if instead.is_file() and not path.exists():
        return read_safetensors(instead, what, do)
    try:
        if path.exists() and not path.is_file():  # a named pipe would be waited for
            raise ValueError("it is no regular file")
        with path.open("rb") as raw:
            if raw.read(2) != b"PK":  # as every zip archive begins
                raise UserError(what, path, do)
            with zipfile.ZipFile(raw) as archive:
                members = archive.infolist()
                if sum(member.file_size for member in members) > os.fstat(raw.fileno()).st_size:
                    raise ValueError("it is compressed, or its members are larger than the file")
                return {member.filename.removesuffix(".npy"): _array(archive, member) for member in members}
    except FileNotFoundError:
        raise
    except _DAMAGED as error:
        raise UserError(f"{what}: {error}", path, do) from error


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """Read an array, once what its header declares is what the archive holds."""
    if member.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{member.filename} is compressed")
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        if version not in _HEADERS:
            raise ValueError(f"{member.filename} is of another version, {version}")
        shape, _, dtype = _HEADERS[version](file)
        held = member.file_size - file.tell()
    if dtype.hasobject or min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != held:
        raise ValueError(f"{member.filename} declares {dtype}{list(shape)}, and holds {held} bytes")
    with archive.open(member) as file:
        array = np.lib.format.read_array(file, allow_pickle=False)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def to_safetensors(arrays: Mapping[str, Any], metadata: Mapping[str, str] = MappingProxyType({})) -> bytes:
    """Return arrays as a safetensors file, which has no text: of that code points, named in its metadata.

    Args:
        arrays: by name.
        metadata: further text of the file, by name.
    """
    from safetensors.numpy import save  # killed, its save_file leaves a temporary file of its own

    plain = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    texts = [name for name, array in plain.items() if array.dtype.kind == "U"]
    for name in texts:
        array = plain[name]
        plain[name] = array.view(np.uint32).reshape(*array.shape, array.dtype.itemsize // 4)
    return _in_order(save(plain, {**metadata, **dict.fromkeys(texts, "text")}))


def _in_order(file: bytes) -> bytes:
    """Return a safetensors file with its metadata ordered by name; the library leaves their order to chance."""
    (length,) = struct.unpack_from("<Q", file)
    header = json.loads(file[8 : 8 + length])
    if "__metadata__" in header:
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # arrays are aligned
    return b"".join([struct.pack("<Q", len(text)), text, memoryview(file)[8 + length :]])


def read_safetensors(path: Path, what: str, do: str) -> dict[str, NDArray[Any]]:
    """Return all arrays of a file that `to_safetensors` wrote.

    Args:
        what: as in `read_npz`.
        do: as in `read_npz`.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "np") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            texts = file.metadata() or {}
        for name in arrays:
            if texts.get(name) == "text":
                points = arrays[name]
                if points.dtype != np.uint32 or points.ndim == 0 or points.shape[-1] == 0:
                    raise ValueError(f"{name} is not of code points")
                arrays[name] = points.view(np.dtype(("U", points.shape[-1])))[..., 0]
        return arrays
    except (*_DAMAGED, AttributeError, SafetensorError) as error:
        raise UserError(f"{what}: {error}", path, do) from error
