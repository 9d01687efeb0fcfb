"""Operations and bytes are those of the parameters that an event uses."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest

from benchmarks.speed import formulas
from jaxcf.models import pmf
from jaxlm.models import lbl, nplm
from jaxlm.models.hlbl import model as hlbl


def cost(model: str, config, costs=None) -> formulas.Cost:
    return formulas.cost(model, SimpleNamespace(program=SimpleNamespace(config=config), costs=costs))


@pytest.mark.parametrize("diagonal", [False, True])
def test_language_models_multiply_every_weight_three_times(diagonal: bool) -> None:
    """Forward, and the gradients by both factors, each of a multiplication and an addition."""
    config = lbl.Config(num_words=20, num_features=6, context_size=3, diagonal=diagonal)
    params = lbl.init(jax.random.key(0), config, np.ones(20))
    assert cost("lbl", config).operations == 6 * (params.R.size + params.C.size)
    for direct in (False, True):
        network = nplm.Config(num_words=20, num_features=6, context_size=3, num_hidden=7, direct=direct)
        weights = nplm.init(jax.random.key(0), network, np.ones(20))
        assert cost("nplm", network).operations == 6 * (weights.U.size + weights.H.size)


def test_factors_move_the_rating_and_two_rows_there_and_back() -> None:
    for biases in (False, True):
        config = pmf.Config(num_users=3, num_items=4, num_features=10, biases=biases)
        assert cost("pmf", config).bytes == 12 + 2 * 2 * 4 * (10 + biases)
        assert cost("svd-bias", config).operations == 60


def test_the_hierarchical_model_reads_rows_below_the_hot_nodes() -> None:
    config = hlbl.Config(num_words=20, num_nodes=19, num_features=10, context_size=3)
    tiles = np.array([[1, 0], [1, 2]], np.int32)  # of four decisions, hot and cold
    found = cost("hlbl", config, tiles)
    assert found.operations == 6 * 10 * (4 + 4 + 3)
    assert found.bytes == 2 * 4 * 10 * (4 + 3)


def test_a_model_without_a_formula_says_so() -> None:
    assert cost("rbm", None) == (None, None, "no formula")
