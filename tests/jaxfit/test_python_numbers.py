"""Numbers of NumPy and JAX become those of Python."""

import jax.numpy as jnp
import numpy as np

from jaxfit.python_numbers import as_python


def test_numbers_are_found_within_lists_and_mappings():
    given = {"a": np.float32(0.5), "b": [np.int64(2), {"c": (jnp.int32(3), np.bool_(True))}], "d": np.arange(2)}
    found = as_python(given)
    assert found == {"a": 0.5, "b": [2, {"c": (3, True)}], "d": [0, 1]}
    assert type(found["a"]) is float
    assert type(found["b"][0]) is int
    assert type(found["b"][1]["c"][0]) is int
    assert type(found["b"][1]["c"][1]) is bool


def test_what_is_no_number_stays():
    for value in ("text", None, 1, 0.5, True, ("a", "b"), {"*": 1}):
        assert as_python(value) == value
        assert type(as_python(value)) is type(value)
