"""Settings out of their bounds are refused, in Python as on the command line."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from jaxfit.errors import UserError
from jaxfit.recipe import (
    SEED,
    Recipe,
    correction,
    number_of,
    option,
    parse_per_parameter,
    require_bounds,
    require_number,
)
from jaxfit.run_dir.run import Run

RECIPE = Recipe("sgd", 10, 2, {"*": 0.1}, {"*": 0.0})
BAD = [
    ("rate", {"*": 0.1, "b": math.nan}, "invalid value nan (--rate) - give a number of at least 0"),
    ("rate", {"*": math.inf}, "invalid value inf (--rate) - give a number from 0 to 3e+38"),
    ("rate", {"*": -0.1}, "invalid value -0.1 (--rate) - give a number of at least 0"),
    ("rate", {"*": "0.1"}, "invalid value '0.1' (--rate) - give a number of at least 0"),
    ("decay", {"*": -1}, "invalid value -1 (--decay) - give a number of at least 0"),
    ("decay", {"*": 1e39}, "invalid value 1e+39 (--decay) - give a number from 0 to 3e+38"),
    ("drops", (0.1, math.nan), "invalid value nan (--drops) - give a number of at least 1e-06, below 1"),
    ("drops", (1.0,), "invalid value 1.0 (--drops) - give a number of at least 1e-06, below 1"),
    ("drops", (0.1, 0), "invalid value 0 (--drops) - give a number of at least 1e-06, below 1"),
    ("batch_size", 0, "invalid value 0 (--batch-size) - give a whole number of at least 1"),
    ("batch_size", 2.5, "invalid value 2.5 (--batch-size) - give a whole number of at least 1"),
    ("batch_size", True, "invalid value True (--batch-size) - give a whole number of at least 1"),
    ("epochs", 10**12, "invalid value 1000000000000 (--epochs) - give a whole number from 1 to 2147483647"),
    ("optimizer", "adan", "unknown value 'adan' (--optimizer) - did you mean adam?"),
    ("optimizer", None, "unknown value None (--optimizer) - choose from sgd, adagrad, rowwise-adagrad, adam"),
    ("reduction", "average", "unknown value 'average' (--reduction) - choose from sum, mean"),
    ("patience", -1, "invalid value -1 (--patience) - give a whole number of at least 1"),
]


@pytest.mark.parametrize(("name", "value", "message"), BAD)
def test_a_recipe_with_a_value_that_is_not_allowed_is_refused(name, value, message):
    with pytest.raises(UserError) as error:
        replace(RECIPE, **{name: value})
    assert str(error.value) == message


@pytest.mark.parametrize("minutes", [math.nan, math.inf, -1.0])
def test_a_run_with_a_time_that_is_none_is_refused(minutes):
    with pytest.raises(UserError, match="--max-minutes"):
        Run(max_minutes=minutes)
    with pytest.raises(UserError, match="--checkpoint-minutes"):
        Run(checkpoint_minutes=minutes)


def test_numbers_of_numpy_and_bounds_themselves_are_taken():
    replace(RECIPE, batch_size=np.int64(3), rate={"*": np.float32(0.1)}, decay={"*": 3e38}, epochs=2**31 - 1)


@dataclass(frozen=True)
class Settings:
    """One field of each kind."""

    share: float = option(0.5, below=1)
    shift: float = option(0.0, low=-np.inf)
    steps: tuple[int, ...] = option((1,), high=9)
    minutes: float | None = option(None)
    name: str = option("x")
    flag: bool = option(False)


@pytest.mark.parametrize(
    "bad",
    [{"share": 1.0}, {"shift": -np.inf}, {"shift": np.nan}, {"steps": (1, 10)}, {"steps": (1.5,)}, {"minutes": -1}],
)
def test_fields_are_held_to_their_bounds(bad):
    require_bounds(Settings())
    require_bounds(Settings(share=0.999, shift=-1e9, steps=(1, 9), minutes=0.0))
    with pytest.raises(UserError, match=f"--{next(iter(bad))}"):
        require_bounds(Settings(**bad))


@pytest.mark.parametrize("value", [-4e38, 4e38, math.inf, math.nan, None])
def test_the_correction_of_a_number_of_either_sign_has_both_bounds(value):
    assert correction(value, float, low=-math.inf) == "give a number from -3e+38 to 3e+38"
    assert correction(-3e38, float, low=-math.inf) is None


@pytest.mark.parametrize("seed", [-1, 2**32, 2**64, 1.0, "1"])
def test_a_seed_that_would_repeat_another_is_refused(seed):
    with pytest.raises(UserError, match=r"\(--seed\) - give a whole number from 0 to 4294967295"):
        require_number(seed, "--seed", int, **SEED)
    require_number(2**32 - 1, "--seed", int, **SEED)


def test_the_kind_of_number_is_found_within_types():
    found = [number_of(hint) for hint in (int, float | None, tuple[int, ...], dict[str, float], str, bool)]
    assert found == [int, float, int, float, None, None]


@pytest.mark.parametrize(
    ("text", "what"), [("0.1,0.2", "two values for all parameters"), ("0.1,b=1,b=2", "two values for b")]
)
def test_two_values_for_one_parameter_are_refused(text, what):
    assert parse_per_parameter("0.1, b=2", "--rate") == {"*": 0.1, "b": 2.0}
    with pytest.raises(UserError, match=f"{what} .--rate. - write one"):
        parse_per_parameter(text, "--rate")
