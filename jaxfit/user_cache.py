"""The folder where this project keeps what it can make again: compiled programs, which models were found whole."""

import os
from pathlib import Path


def folder() -> Path:
    """Return `$XDG_CACHE_HOME/jax-mnih` or `~/.cache/jax-mnih`."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home).absolute() / "jax-mnih"
