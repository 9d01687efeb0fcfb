"""Damaged copies of a model's files: single bits, and ends that are missing."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

BITS, CUTS = 200, 50  # of each file
SAMPLE = ["kn", "hlbl", "pmf"]  # kinds of models that the quick tests take


def harmed(content: bytes, bits: int, cuts: int, rng: np.random.Generator) -> Iterator[bytes]:
    """Yield a file's content with one bit flipped, `bits` times, and then cut off, `cuts` times."""
    for place in rng.integers(8 * len(content), size=bits):
        changed = bytearray(content)
        changed[place // 8] ^= 1 << (place % 8)
        yield bytes(changed)
    for end in rng.integers(len(content), size=cuts):
        yield content[:end]


def files(folder: Path) -> list[Path]:
    """List all files that are not empty in a folder and below it."""
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.stat().st_size)


def copied(folder: Path, to: Path) -> Path:
    """Copy a folder, and return the copy."""
    shutil.rmtree(to, ignore_errors=True)
    return Path(shutil.copytree(folder, to))
