"""`run --dry-run`: what a table would cost, from 50 steps of each shape of model it trains."""

import resource
import sys
import time
from typing import Any

import jax
import numpy as np
from rich.table import Table as RichTable

from benchmarks import scales
from benchmarks.shelf import Shelf, Spec, bootstrap
from benchmarks.table import Table
from jaxfit import fit, step
from jaxlm import examples, hlbl, lbl, trees
from jaxlm.tree_order import by_visits
from jaxlm.tree_paths import node_biases

STEPS = 50
# A learned tree is not there before its bootstrap model is trained. Random trees of so many copies stand in:
# as many as make the mean code length of Table 4.3.
STAND_INS = {(0.0, 1): 1, (0.25, 1): 2, (0.4, 1): 2, (0.4, 2): 5, (0.4, 4): 10}
VALIDATION = 1 / 3  # of a training step's time for each event: the gradient costs twice the loss


def project(table: Table, shelf: Shelf, seeds: int | None) -> dict[str, Any]:
    """Hours and memory that the table's models would take, those on the shelf left out."""
    wanted: dict[Spec, None] = {}

    def want(spec: Spec) -> None:
        for other in (spec.tree_of, bootstrap(spec)):
            if other is not None:
                want(other)
        wanted[spec] = None

    for row in table.rows(shelf.scale, seeds):
        for spec in (spec for specs in row.draws for spec in specs):
            want(spec)
    neural = [spec for spec in wanted if spec.kind != "kn"]
    missing = [spec for spec in neural if not shelf.is_there(spec)]
    shapes: dict[tuple[Any, ...], list[Spec]] = {}
    for spec in missing:
        shapes.setdefault((spec.kind, spec.config, spec.tree[1:] if spec.kind == "hlbl" else ()), []).append(
            spec
        )
    rows = [_shape(specs[0], len(specs), shelf) for specs in shapes.values()]
    return {
        "models": len(neural),
        "on the shelf": len(neural) - len(missing),
        "shapes": rows,
        "hours": sum(row["hours"] for row in rows),
        "memory_gb": max((row["memory_gb"] for row in rows), default=0.0),
    }


def model(spec: Spec, shelf: Shelf) -> tuple[fit.Trainer, str]:
    """The training of a model of this shape, at its first step, and the model's name."""
    vocabulary, ids = shelf.corpus.vocabulary, shelf.corpus.train
    recipe, config = scales.recipe(spec.kind, shelf.recipe, shelf.scale)
    config |= {"num_features": shelf.scale.num_features} | dict(spec.config)
    key, counts = jax.random.key(0), np.bincount(ids, minlength=len(vocabulary))
    program: step.Program
    params: Any
    data: Any
    if spec.kind == "lbl":
        flat = lbl.Config(num_words=len(vocabulary), **config)
        program, params = lbl.program(flat, vocabulary.eos), lbl.init(key, flat, counts)
        data = examples.pad(ids, flat.context_size, vocabulary.eos)
    else:
        copies = spec.tree[2] if spec.tree[0] == "random" else STAND_INS[spec.tree[1:]]
        tree = trees.build("random", key, num_words=len(vocabulary), copies=copies)
        deep = hlbl.Config(num_words=len(vocabulary), num_nodes=len(tree.children), **config)
        tree = by_visits(tree, counts, deep.num_hot)
        program, params = hlbl.program(deep, vocabulary.eos), hlbl.init(key, deep, node_biases(tree, counts))
        data = hlbl.make_data(ids, tree, deep, vocabulary.eos)
    trainer = fit.Trainer(program, params, data, recipe, key, None)
    return trainer, spec.label().replace(f"-seed{spec.seed}", "")


def _shape(spec: Spec, models: int, shelf: Shelf) -> dict[str, Any]:
    trainer, label = model(spec, shelf)
    recipe = trainer.recipe
    run = trainer.epoch_run()
    first = min(1, trainer.steps - 1)
    taken = min(STEPS, trainer.steps - first)
    run(0, first)
    begin = time.perf_counter()
    run(first, first + taken)
    seconds = (time.perf_counter() - begin) / taken
    events = trainer.steps * recipe.batch_size + VALIDATION * len(shelf.corpus.valid)
    epoch = seconds * events / recipe.batch_size
    (room,) = trainer.runs
    return {
        "model": label,
        "models": models,
        "seconds_per_step": seconds,
        "words_per_second": recipe.batch_size / seconds,
        "padding_ratio": _padding(trainer, room),
        "minutes_per_epoch": epoch / 60,
        "epochs": recipe.epochs,
        "hours": models * (trainer.compile_seconds + epoch * recipe.epochs) / 3600,
        "memory_gb": _peak_memory() / 1e9,
    }  # fmt: skip


def _padding(trainer: fit.Trainer, room: int | tuple[int, ...]) -> float:
    """Room of all minibatches over the entries in it; 1 where examples are of one size."""
    if trainer.costs is None:
        return 1.0
    return trainer.steps * float(np.sum(room)) / float(np.sum(trainer.costs, dtype=np.int64))


def _peak_memory() -> float:
    """Bytes in use at most, on the accelerator, or of this process where the CPU is the device."""
    stats = jax.devices()[0].memory_stats()
    if stats and "peak_bytes_in_use" in stats:
        return stats["peak_bytes_in_use"]
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def shown(name: str, projected: dict[str, Any]) -> RichTable:
    """The projection for people."""
    table = RichTable(
        "model", "models", "words/s", "padding", "min/epoch", "epochs at most", "hours", "memory so far, GB",
        title=f"{name}: {projected['models']} neural models, {projected['on the shelf']} of them on the shelf; "
        f"at most {projected['hours']:.2f} hours and {projected['memory_gb']:.1f} GB",
        title_justify="left",
        caption="learned trees are stood in for by random ones with the code lengths of Table 4.3; "
        "padding: room of minibatches over what is in it",
    )  # fmt: skip
    for row in projected["shapes"]:
        table.add_row(
            row["model"], str(row["models"]), f"{row['words_per_second']:,.0f}",
            f"{row['padding_ratio']:.2f}", f"{row['minutes_per_epoch']:.2f}",
            str(row["epochs"]), f"{row['hours']:.2f}", f"{row['memory_gb']:.2f}",
        )  # fmt: skip
    return table
