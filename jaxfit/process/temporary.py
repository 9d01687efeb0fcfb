"""Temporary folders that go with the process, also where a signal ends it at once (see `jaxfit.cli.interrupts`)."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

_folders: set[str] = set()


@contextmanager
def folder() -> Iterator[Path]:
    """Yield a new folder that is removed afterwards."""
    name = ""
    try:
        with TemporaryDirectory() as name:
            _folders.add(name)
            yield Path(name)
    finally:
        _folders.discard(name)


def remove_all() -> None:
    """Remove what is there of all such folders."""
    for name in tuple(_folders):
        shutil.rmtree(name, ignore_errors=True)
