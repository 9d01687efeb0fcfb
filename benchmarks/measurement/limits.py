"""Limits of the device through JAX: matrix products, copying, reading rows of a table and adding to them.

They are measured in turn with what is compared with them. A limit is the median of many repetitions, so that one slow
repetition does not put a measurement above it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from benchmarks.core.statistics import quartiles
from benchmarks.core.timing import windowed
from jaxfit.registry import Cost, Record
from jaxfit.trainer import Trainer

MATRIX = 2000  # rows and columns of the factors
COPIED = 1 << 28  # bytes
ROWS, WIDTH, BLOCK, BLOCKS = 1_000_000, 100, 8192, 16  # a table of float32; rows in a block, blocks
ACCELERATED = 4  # factor of sizes on an accelerator: of matrices, arrays, blocks
OPERATIONS, COPY, GATHER, SCATTER = "matrix product", "copy", "gather", "scatter-add"
LIMITS, GIGA = "limits of the device", "10⁹/s"  # a table of records, and its column
ABOUT = {  # each rate is in units per second
    OPERATIONS: f"operations of float32 products of {MATRIX:,} x {MATRIX:,} matrices, on an accelerator "
    f"{ACCELERATED * MATRIX:,} x {ACCELERATED * MATRIX:,}",
    COPY: f"bytes, read and written, of an array of {COPIED >> 20} MiB to which one is added in place; what fits into "
    "caches can be faster",
    GATHER: f"bytes, read and written, of random rows of {WIDTH} numbers of a table of {ROWS:,}",
    SCATTER: "bytes, read and written, of as many rows of it that are added to",
}


def measures(*names: str) -> dict[str, Callable[[], float]]:
    """Return, by name, functions that measure the rates in ABOUT, or only those that are named."""
    return {name: _LIMITS[name]() for name in names or ABOUT}


def cost(model: Record, trainer: Trainer) -> Cost | None:
    """Return the cost of an event of a model's training; None for models without a formula."""
    return None if model.cost is None else model.cost(trainer.program.config, trainer.costs)


def _times() -> int:
    """Return the factor by which work is larger than on a CPU, so that launching it takes no time in comparison."""
    return 1 if jax.default_backend() == "cpu" else ACCELERATED


def _product() -> Callable[[], float]:
    size = MATRIX * _times()
    factor = jnp.ones((size, size))
    return _rate(2 * size**3, jnp.matmul, factor, factor)


def _copy() -> Callable[[], float]:
    size = COPIED * _times()
    return _rate(2 * size, lambda x: x + 1, jnp.zeros(size // 4), in_place=True)


def _gather() -> Callable[[], float]:
    def gather(into: Array, table: Array, ids: Array) -> Array:
        return lax.fori_loop(0, len(ids), lambda i, _: table.at[ids[i]].get(mode="clip"), into)

    ids = _ids()
    return _rate(_bytes(ids), gather, jnp.zeros((ids.shape[1], WIDTH)), jnp.zeros((ROWS, WIDTH)), ids, in_place=True)


def _scatter() -> Callable[[], float]:
    def scatter(table: Array, ids: Array, rows: Array) -> Array:
        return lax.fori_loop(0, len(ids), lambda i, t: t.at[ids[i]].add(rows, mode="drop"), table)

    ids = _ids()
    return _rate(_bytes(ids), scatter, jnp.zeros((ROWS, WIDTH)), ids, jnp.zeros((ids.shape[1], WIDTH)), in_place=True)


def _ids() -> Array:
    return jax.random.randint(jax.random.key(0), (BLOCKS * _times(), BLOCK * _times()), 0, ROWS)


def _bytes(ids: Array) -> int:
    return 2 * 4 * ids.size * WIDTH


_LIMITS = {OPERATIONS: _product, COPY: _copy, GATHER: _gather, SCATTER: _scatter}


def _rate(
    work: float, function: Callable[..., Array], first: Array, *rest: Array, in_place: bool = False
) -> Callable[[], float]:
    """Return a function that measures work per second of a function; `in_place`, it overwrites its first argument."""
    compiled = jax.jit(function, donate_argnums=0 if in_place else ())

    def once() -> None:
        nonlocal first
        result = jax.block_until_ready(compiled(first, *rest))
        first = result if in_place else first

    return partial(_median_rate, work, once)


def _median_rate(work: float, once: Callable[[], None]) -> float:
    return work / float(np.median(windowed(once)))


def table(rates: Mapping[str, Sequence[float]]) -> dict[str, dict[str, Any]]:
    """Return the limits among rates, each measured in all rounds, as a table."""
    return {name: {GIGA: quartiles([rate / 1e9 for rate in rates[name]]), "of": what} for name, what in ABOUT.items()}
