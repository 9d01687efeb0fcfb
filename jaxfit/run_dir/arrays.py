"""Reading .npz files of plain arrays, which may be damaged."""

import lzma
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxfit.errors import UserError

# what NumPy and zipfile raise for a file that is no .npz file of plain arrays, or a damaged one; MemoryError as well,
# since a damaged header can declare an array of any size
_DAMAGED = (
    OSError, ValueError, TypeError, KeyError, EOFError, RuntimeError, OverflowError, MemoryError,
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error,
)  # fmt: skip


def read_npz(path: Path, what: str, do: str) -> dict[str, NDArray[Any]]:
    """Return all arrays of an .npz file by name, without unpickling.

    Args:
        path: the file.
        what: to say of a file that is damaged or no .npz file.
        do: what the user can do about it.

    Raises:
        FileNotFoundError: there is no such file.
        UserError: it is damaged.
    """
    try:
        # opened here, since np.load does not close a file that it fails to read
        with path.open("rb") as raw:
            if raw.read(2) != b"PK":  # as every zip archive begins
                raise UserError(what, path, do)
            raw.seek(0)
            with np.load(raw, allow_pickle=False) as file:
                return {name: file[name] for name in file}
    except FileNotFoundError:
        raise
    except _DAMAGED as error:
        raise UserError(f"{what}: {error}", path, do) from error
