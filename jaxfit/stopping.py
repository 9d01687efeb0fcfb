"""When rates drop and training ends: a function of validation scores alone, so that it can be repeated."""

import math

from jaxfit.recipe import Recipe
from jaxfit.state import Progress


def after_epoch(progress: Progress, score: float, recipe: Recipe) -> Progress:
    """Where training continues once an epoch has been validated; a lower score is better.

    When the score has not improved for `patience` epochs, the next rate drop is entered; after the last one training
    ends. With `anneal` it runs its epochs out.
    """
    improved = score < progress.best
    if improved:
        progress = progress._replace(best=score, best_epoch=progress.epoch)
    waited = 0 if improved else progress.waited + 1
    progress = progress._replace(epoch=progress.epoch + 1, at=0, waited=waited)
    if not recipe.anneal and waited >= recipe.patience:
        if progress.phase < len(recipe.drops):
            progress = progress._replace(phase=progress.phase + 1, waited=0)
        else:
            progress = progress._replace(done=True)
    return progress._replace(done=progress.done or progress.epoch >= recipe.epochs)


def is_best(progress: Progress) -> bool:
    """Whether the last epoch, now over, has the best score so far."""
    return math.isfinite(progress.best) and progress.best_epoch == progress.epoch - 1
