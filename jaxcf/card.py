"""What a recommender's card says of it (`jaxfit.run_dir.card`)."""

import shlex
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from jaxcf.recommender import Model
from jaxfit.recipe import named_arrays
from jaxfit.run_dir import card

MEASURES = {"RMSE": "rmse", "rmse_clipped": "rmse", "mae_clipped": "mae", "NDCG": "ndcg", "ndcg": "ndcg"}


def text(model: Model, info: Mapping[str, Any], place: Path, first: Iterable[str], scores: card.Scores) -> str:
    """Return the card of a model.

    Args:
        model: the model.
        info: what `config.json` holds.
        place: the folder in which the card's commands find the model.
        first: commands that come before those that use the model.
        scores: on validation and test ratings.
    """
    user, item, path = str(model.catalogue.users[0]), str(model.catalogue.items[0]), shlex.quote(str(place))
    shell = [*first, f"jaxcf eval {path} --ratings test.csv", f"jaxcf recommend {path} --user {shlex.quote(user)}"]
    python = [
        "import jaxcf",
        "",
        f"model = jaxcf.load({str(place)!r})",
        f"model.recommend({user!r})" if model.record.implicit else f"model.predict([{user!r}], [{item!r}])  # stars",
    ]
    limits = (
        f"It knows the {model.catalogue.num_users:,} users and {model.catalogue.num_items:,} items of its training "
        "data. **Its files have their ids and who rated or took what**, from which it predicts: share them only where "
        "you may share these."
    )
    sizes = {name: np.shape(array) for name, array in named_arrays(model.params).items()}
    task, name = None if model.record.implicit else "tabular-regression", info.get("data", {}).get("name", "ratings")
    about = card.About(shell, python, task, ("recommender-system",), MEASURES, name, limits)
    return card.text(model.record, info, sizes, scores, about)


write = partial(card.write_after, text)
