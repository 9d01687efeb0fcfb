"""Positives per second of weighted matrix factorization by alternating sweeps, beside the package `implicit`."""

from collections.abc import Callable
from time import perf_counter
from typing import Any

import jax
import numpy as np

from benchmarks.core.statistics import quartiles
from benchmarks.core.timing import interleaved
from benchmarks.measurement import limits, machine
from benchmarks.ratings.scales import speed_ratings
from benchmarks.speed.peers import missing
from benchmarks.speed.peers.rankers import Problem, als_fit
from benchmarks.speed.throughput import Figures
from jaxcf import models
from jaxcf.contract import NO_PAIRS, BySweeps
from jaxcf.data.positives import of_dataset
from jaxcf.data.ratings import Dataset, Units
from jaxfit.devices.precision import full_precision

CASES = ("wmf",)
POSITIVE, SWEEPS = 4.0, 5  # stars; at a time
SIZES = (50, 100)  # features
PACKAGE, LIMITS = "implicit", f"{limits.LIMITS} in the rounds of sweeps"


def our_sweeps(name: str, solver: str, data: Dataset, size: int) -> Callable[[], float]:
    """Return a function that makes SWEEPS sweeps and returns positives per second.

    Args:
        data: positives.
    """
    record = models.get(name)
    recipe, options = record.recipe("tuned")
    config = record.configure(data.catalogue, Units(), {**options, "num_features": size})
    fitting = record.solver(solver)
    assert isinstance(fitting, BySweeps)
    sweeps = fitting.prepare(jax.random.key(0), data, NO_PAIRS, config, recipe)
    key = jax.random.key(1)
    jax.block_until_ready(sweeps.sweep(sweeps.params, sweeps.data, key))  # compiled

    @full_precision()
    def rate() -> float:
        begin, params = perf_counter(), sweeps.params
        for _ in range(SWEEPS):
            params = sweeps.sweep(params, sweeps.data, key)
        jax.block_until_ready(params)
        return SWEEPS * len(data.train.user) / (perf_counter() - begin)

    return rate


def their_sweeps(data: Dataset, size: int, exact: bool) -> Callable[[], float]:
    """Return a function that does the same with the package `implicit`, by conjugate gradients or exactly."""
    problem = Problem(data.train, data.catalogue.num_users, data.catalogue.num_items, size, 0)

    def rate() -> float:
        fit = als_fit({"iterations": SWEEPS, "use_cg": not exact}, problem)
        begin = perf_counter()
        fit()
        return SWEEPS * len(data.train.user) / (perf_counter() - begin)

    return rate


def measure(name: str, peers: bool = False, data: Dataset | None = None, sizes: tuple[int, ...] = SIZES) -> Figures:
    """Measure sweeps by each of the model's ways of fitting, beside implicit's two where it is installed."""
    data = of_dataset(speed_ratings().data if data is None else data, POSITIVE)
    out = missing(f"{PACKAGE}.als") if peers else None
    measures: dict[Any, Callable[[], float]] = {**limits.measures()}
    solvers = [fitting.name for fitting in models.get(name).fitting]
    theirs = {f"{PACKAGE}, cg": False, f"{PACKAGE}, cholesky": True} if peers and out is None else {}
    for size in sizes:
        for solver in solvers:
            measures[size, f"jaxcf, {solver}"] = our_sweeps(name, solver, data, size)
        for label, exact in theirs.items():
            measures[size, label] = their_sweeps(data, size, exact)
    rates: dict[Any, list[float]] = interleaved(measures)
    tables = {}
    for size in sizes:
        labels = [key[1] for key in rates if isinstance(key, tuple) and key[0] == size]
        table: dict[str, dict[str, Any]] = {label: {"positives/s": quartiles(rates[size, label])} for label in labels}
        for label in theirs:
            ours = rates[size, f"jaxcf, {label.partition(', ')[2]}"]
            table[label]["jaxcf / this"] = quartiles(np.divide(ours, rates[size, label]))
        tables[f"sweeps of {size} features"] = table
    return {
        "setting": {
            "positives of sweeps": f"{len(data.train.user):,}, the training ratings of at least {POSITIVE:g} stars, "
            f"{data.note}", "threads": machine.threads("jaxcf"), **({"left out": f"{PACKAGE}: {out}"} if out else {}),
        },
        "tables": {**tables, LIMITS: limits.table(rates)},
        "limits": dict.fromkeys(tables, LIMITS),
    }  # fmt: skip
