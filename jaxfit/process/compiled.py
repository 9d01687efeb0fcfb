"""What a process keeps of compiled programs: those of its last few different trainings.

JAX keeps thousands of programs, also those of single operations on arrays of each shape. A training compiles twenty,
which take 30 MB and 500 of the 65,530 memory maps that Linux allows.
"""

from collections.abc import Hashable
from typing import Any

import jax
import numpy as np

MOST = 8  # different trainings of which programs are kept

_kept: set[Hashable] = set()


def keep(what: Hashable, arrays: Any) -> None:
    """Announce a training, of `what` on pytrees of arrays; if it is one too many, drop all programs of those before.

    Programs that other code of this process needs are compiled again when they are called.
    """
    training = what, jax.tree.structure(arrays), tuple(map(np.shape, jax.tree.leaves(arrays)))
    if training not in _kept and len(_kept) >= MOST:
        _kept.clear()
        jax.clear_caches()
    _kept.add(training)
