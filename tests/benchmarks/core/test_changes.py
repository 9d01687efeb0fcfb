"""Fields of a recipe and of a configuration that are changed by name."""

import pytest

from benchmarks.core.changes import changed
from jaxfit.recipe import Recipe


def test_names_reach_the_recipe_its_parameters_and_the_configuration() -> None:
    recipe = Recipe(optimizer="sgd", batch_size=5, epochs=3, rate={"*": 0.1, "b": 0.2}, decay={"*": 0.0})
    config = {"x": 1}
    changes = {"rate.b,c": 0.5, "rate.*": 0.3, "batch_size": 9, "y": 2}
    other, found = changed(recipe, config, changes.items())
    assert other is not None
    assert other.rate == {"*": 0.3, "b": 0.5, "c": 0.5}
    assert (other.batch_size, other.epochs, other.decay) == (9, 3, {"*": 0.0})
    assert found == {"x": 1, "y": 2}
    assert config == {"x": 1}
    with pytest.raises(AssertionError, match="epochs"):
        changed(None, config, [("epochs", 3)])
