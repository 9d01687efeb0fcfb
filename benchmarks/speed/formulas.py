"""Operations and bytes that training takes at least for a word or a rating, where a model has a formula.

Operations are multiplications and additions of the products of each parameter with what it is applied to: one product
forward, and one each for the gradients by its two factors. Softmax, other functions, and updates are left out. Bytes
are of rows of tables that are read and written once, each of float32, whatever a cache would save.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxfit.trainer import Trainer
from jaxlm.models.hlbl.batch import TILE

PRODUCT = 2 * 3  # operations for each parameter: forward, and both gradients
ROW = 2 * 4  # bytes of each number of a row, read and written


class Cost(NamedTuple):
    """What an event takes, and by which formula; None where that is no limit of the model."""

    operations: float | None
    bytes: float | None
    formula: str


def _lbl(trainer: Trainer) -> Cost:
    operations = lbl_operations(trainer.program.config)
    return Cost(operations, None, "6 (N_w D + c D²) operations: R by the softmax, C")


def lbl_operations(config: Any) -> int:
    """Count the operations of a word of the log-bilinear model."""
    D, c = config.num_features, config.context_size
    return PRODUCT * (config.num_words * D + c * (D if config.diagonal else D**2))


def _nplm(trainer: Trainer) -> Cost:
    config = trainer.program.config
    D = config.context_size * config.num_features
    output = config.num_words * (config.num_hidden + (D if config.direct else 0))
    operations = PRODUCT * (output + config.num_hidden * D)
    return Cost(operations, None, "6 (N_w N_h + N_h c D) operations: U, H")


def _hlbl(trainer: Trainer) -> Cost:
    assert trainer.costs is not None
    config, (hot, cold) = trainer.program.config, TILE * trainer.costs[:, :2].mean(axis=0, dtype=np.float64)
    D, c = config.num_features, config.context_size
    formula = "6 D (decisions + c) operations; 8 D (decisions below the hot nodes + c) bytes: rows of Q, R"
    return Cost(PRODUCT * D * (hot + cold + c), ROW * D * (cold + c), f"{formula}; decisions in tiles of {TILE}")


def _factors(trainer: Trainer) -> Cost:
    config = trainer.program.config
    numbers = 2 * (config.num_features + config.biases)
    formula = "6 D operations; 12 + 8 · 2 (D + 1) bytes: the rating, rows of U and V with their biases"
    return Cost(PRODUCT * config.num_features, 12 + ROW * numbers, formula)


FORMULAS: dict[str, Callable[[Trainer], Cost]] = {
    "lbl": _lbl, "nplm": _nplm, "hlbl": _hlbl, "pmf": _factors, "svd": _factors, "svd-bias": _factors,
}  # fmt: skip


def cost(model: str, trainer: Trainer) -> Cost:
    """Return what an event of a model's training takes."""
    known = FORMULAS.get(model)
    return Cost(None, None, "no formula") if known is None else known(trainer)
