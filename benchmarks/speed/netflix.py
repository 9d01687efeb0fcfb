"""A pass over as many ratings as the Netflix Prize had, planted: of PMF with 10 features, or the RBM with 100 units."""

import time
from typing import Any

import jax

from benchmarks.core.statistics import quartiles
from benchmarks.core.timing import in_turn, mean_score, pass_seconds
from benchmarks.measurement import limits
from benchmarks.measurement.memory import peak_memory, restart_peak
from benchmarks.speed import time_to_error
from benchmarks.speed.throughput import MEGA, MEMORY, Figures
from jaxcf.data.synthetic import NETFLIX, NETFLIX_SHARES, Planted, planted

MODELS: dict[str, dict[str, Any]] = {  # minibatches of a size that suits so much data
    "pmf": {"num_features": 10, "batch_size": 2000},
    "rbm": {"num_hidden": 100, "batch_size": 50},
}
ROUNDS = 5  # of a pass, which takes the RBM minutes


def measure(model: str, shape: Planted = NETFLIX) -> Figures:
    """Measure the seconds of a pass, those of shuffling in it, and peak memory.

    PMF shuffles groups of ratings, which it lays out before the first pass; these seconds are shown apart. Drawing the
    ratings takes a minute or two, which is not counted; they stay in memory.
    """
    setting = MODELS[model]
    counted = restart_peak()
    drawn = planted(jax.random.key(0), shape, *NETFLIX_SHARES)
    memory: dict[str, Any] = {"drawing of the ratings": {MEGA: peak_memory() / 1e6}}
    restart_peak()
    begin = time.perf_counter()
    trainer = time_to_error.trainer(model, drawn, setting)
    once = time.perf_counter() - begin
    trainer.epoch_run()  # compiles
    pass_seconds(trainer, 0)
    memory["first pass"] = {MEGA: peak_memory() / 1e6}
    measured = limits.measures()
    rates: dict[str, list[float]] = {name: [] for name in measured}
    passes: list[tuple[float, float]] = []
    for number in range(1, ROUNDS + 1):
        for name in in_turn((*measured, model), number):
            if name in measured:
                rates[name].append(measured[name]())
            else:
                passes.append(pass_seconds(trainer, number))
    return {
        "setting": {
            "data": f"{drawn.note}, {len(drawn.train.user):,} training ratings",
            model: [f"{name} {value}" for name, value in setting.items()],
            "rounds": ROUNDS,
            "memory": counted,
        },
        "tables": {
            "a pass": {
                model: {
                    "ratings/s": quartiles([trainer.events / whole for whole, _ in passes]),
                    "seconds": quartiles([whole for whole, _ in passes]),
                    "seconds of shuffling": quartiles([shuffling for _, shuffling in passes]),
                    "seconds of laying the ratings out, once": once,
                    "training RMSE of the last": mean_score(trainer) ** 0.5,
                }
            },
            MEMORY: memory,
            limits.LIMITS: limits.table(rates),
        },
    }
