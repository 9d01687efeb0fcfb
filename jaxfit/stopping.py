"""The stop rule: when rates drop and when a training ends, as a pure function of its progress and validation score."""

import math
from typing import Literal, NamedTuple

from jaxfit.recipe import Recipe


class Progress(NamedTuple):
    """How far training has come: all of its state that is not an array."""

    epoch: int = 0  # the current epoch
    at: int = 0  # steps of this epoch that are done
    phase: int = 0  # the number of rate drops so far
    waited: int = 0  # epochs without improvement since the last drop
    best: float = float("inf")  # validation score
    best_epoch: int = -1
    journal: int = 0  # length in bytes
    done: bool = False


def after_epoch(progress: Progress, score: float, recipe: Recipe, result: Literal["best", "last"] = "best") -> Progress:
    """Return the progress after an epoch with this validation score; a lower score is better.

    When the score has not improved for `patience` epochs, the rate drops; after the last drop, training ends instead.
    With `anneal` all epochs are run. Training also ends after `epochs` epochs. The result of a training is its best
    epoch's parameters (`fit`); `trainer.rates` applies the drops, `loop.make_run` the cosine of `anneal`.

    If the result of the program is the last epoch (`Program.result`), each epoch counts as the best so far, whatever
    its score: all epochs are run, without drops.
    """
    improved = score < progress.best or result == "last"
    if improved:
        progress = progress._replace(best=score, best_epoch=progress.epoch)
    waited = 0 if improved else progress.waited + 1
    progress = progress._replace(epoch=progress.epoch + 1, at=0, waited=waited)
    if not recipe.anneal and waited >= recipe.patience and progress.phase < len(recipe.drops):
        progress = progress._replace(phase=progress.phase + 1, waited=0)
    return go_on(progress, recipe)


def go_on(progress: Progress, recipe: Recipe) -> Progress:
    """Return the progress with `done` as the recipe says, whose number of epochs may differ from before."""
    ended = not recipe.anneal and progress.waited >= recipe.patience  # with a drop left, `waited` is 0 again
    return progress._replace(done=ended or progress.epoch >= recipe.epochs)


def is_best(progress: Progress) -> bool:
    """Return whether the epoch that has just ended has the best score so far."""
    return math.isfinite(progress.best) and progress.best_epoch == progress.epoch - 1
