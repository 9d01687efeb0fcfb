"""One mutated file: it must be read, or refused by UserError, in time and in memory."""

import resource
import shutil
import sys
import time
import zlib
from pathlib import Path

import numpy as np

from jaxfit.errors import UserError
from readers import Command, File, Text

SECONDS = 5.0
BYTES = 1 << 30  # in addition to those of the process before
UNIT = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss


class Excess(Exception):
    """Reading took too long, or too much memory."""


def try_one(reader: File | Text | Command, name: str, seed: int, number: int, folder: Path) -> bool:
    """Let a reader read mutated file `number` of a seed; return whether it did, and did not refuse it.

    Raises:
        Excess: it took too long, or too much memory.
        Exception: whatever the reader raises but UserError.
    """
    place = folder / str(number)
    place.mkdir()
    rng = np.random.default_rng([seed, zlib.crc32(name.encode()), number])
    peak, began = _peak_bytes(), time.perf_counter()
    try:
        reader.attempt(rng, place)
        read = True
    except UserError:
        read = False
    finally:
        shutil.rmtree(place)
    if (seconds := time.perf_counter() - began) > SECONDS:
        raise Excess(f"{seconds:.0f} s")
    if (grown := _peak_bytes() - peak) > BYTES:
        raise Excess(f"{grown >> 20} MB")
    return read


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT
