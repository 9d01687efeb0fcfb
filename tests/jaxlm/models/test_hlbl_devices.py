"""A hierarchical model trained on several devices equals one trained on one."""

from pathlib import Path

import jax
import numpy as np
import pytest

from jaxfit.recipe import Recipe
from jaxfit.run_dir.run import Run
from jaxlm.data.synthetic import planted
from jaxlm.models.hlbl.tree import TreeOptions
from jaxlm.training import train


@pytest.mark.extended  # `conformance/test_training.py` has small models on eight devices
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_many_devices_equal_one(tmp_path: Path, optimizer):
    corpus, _ = planted(jax.random.key(0), events=(2249, 300, 300), num_words=60)
    recipe = Recipe(
        optimizer=optimizer, batch_size=200, epochs=2, rate={"*": 0.01}, decay={"*": 0.1, "b": 0.0}
    )  # fmt: skip
    options = {"recipe": recipe, "config": {"num_features": 8, "dropout": 0.2}, "seed": 3}
    one, four = (
        train(
            "hlbl",
            corpus,
            tmp_path / str(n),
            structure=TreeOptions("random", copies=4),
            run=Run(devices=n),
            **options,
        )
        for n in (1, 4)
    )
    for a, b in zip(one.model.params, four.model.params, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-5)
