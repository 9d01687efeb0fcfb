"""What a process keeps of compiled programs: those of its last few different trainings.

JAX keeps thousands of programs, also those of single operations on arrays of each shape. A training compiles twenty,
which take 30 MB and 500 of the 65,530 memory maps that Linux allows.
"""

from collections.abc import Hashable
from typing import Any

import jax
import numpy as np

MAX_TRAININGS = 8  # different trainings of which programs are kept

_kept: set[Hashable] = set()


def bound_programs(what: Hashable, arrays: Any) -> None:
    """Register a training, identified by `what` and the arrays' shapes.

    When there are too many different ones, drop all compiled programs of this process, also those of other code; they
    are compiled again when they are called. So more than `MAX_TRAININGS` different trainings in turn compile theirs
    again in every round.

    Args:
        what: what is trained, but for its arrays.
        arrays: a pytree of arrays.
    """
    training = what, jax.tree.structure(arrays), tuple(map(np.shape, jax.tree.leaves(arrays)))
    if training not in _kept and len(_kept) >= MAX_TRAININGS:
        _kept.clear()
        jax.clear_caches()
    _kept.add(training)
