"""Operations and bytes are those of the parameters that an event uses, and every model says which these are."""

from typing import Any

import jax
import numpy as np
import pytest

from benchmarks import registry
from jaxcf.models import crbm, masked_rbm, pmf
from jaxcf.models.cpmf import model as cpmf
from jaxcf.models.rbm import config as rbm_config
from jaxcf.models.rbm import model as rbm
from jaxcf.solvers import als
from jaxlm.models import lbl, nplm
from jaxlm.models.hlbl import model as hlbl


@pytest.mark.parametrize("name", registry.engine_models())
def test_every_model_that_the_engine_fits_has_a_cost(name: str) -> None:
    assert registry.models()[name][1].cost is not None


@pytest.mark.parametrize("diagonal", [False, True])
def test_language_models_multiply_every_weight_three_times(diagonal: bool) -> None:
    """Forward, and the gradients by both factors, each of a multiplication and an addition."""
    config = lbl.Config(num_words=20, num_features=6, context_size=3, diagonal=diagonal)
    params = lbl.init(jax.random.key(0), config, np.ones(20))
    assert lbl.cost(config).operations == 6 * (params.R.size + params.C.size)
    for direct in (False, True):
        network = nplm.Config(num_words=20, num_features=6, context_size=3, num_hidden=7, direct=direct)
        weights = nplm.init(jax.random.key(0), network, np.ones(20))
        assert nplm.cost(network).operations == 6 * (weights.U.size + weights.H.size)


def test_factors_move_the_rating_and_two_rows_there_and_back() -> None:
    for biases in (False, True):
        config = pmf.Config(num_users=3, num_items=4, num_features=10, biases=biases)
        assert pmf.cost(config).bytes == 12 + 2 * 2 * 4 * (10 + biases)
        assert pmf.cost(config).operations == 60


def test_the_hierarchical_model_reads_rows_below_the_hot_nodes() -> None:
    config = hlbl.Config(num_words=20, num_nodes=19, num_features=10, context_size=3)
    tiles = np.array([[1, 0], [1, 2]], np.int32)  # of four decisions, hot and cold
    found = hlbl.cost(config, tiles)
    assert found.operations == 6 * 10 * (4 + 4 + 3)
    assert found.bytes == 2 * 4 * 10 * (4 + 3)


@pytest.mark.parametrize(
    ("biases", "equations", "solution", "row"), [(False, 2 * (9 + 3), 9 + 18, 3), (True, 2 * (9 + 6), 9 + 36, 4)]
)
def test_a_sweep_adds_each_rating_to_two_systems_and_solves_one_for_each_user_and_item(
    biases: bool, equations: int, solution: float, row: int
) -> None:
    found = als.cost(pmf.Config(num_users=5, num_items=2, num_features=3, biases=biases), 70)
    assert 70 * found.operations == pytest.approx(70 * 2 * equations + 7 * solution)
    assert (found.read, 70 * found.added) == (2 * row, pytest.approx(7 * row))


LISTS = np.array([[2, 3], [2, 5]], np.int64)  # entries of two users: known ratings, rated items


def user_rbm(**changes: Any) -> rbm_config.Config:
    return rbm_config.Config(num_items=4, num_values=5, num_hidden=7, **changes)


def test_a_chain_multiplies_all_levels_of_a_movie_in_each_of_its_steps() -> None:
    one, five = rbm.cost(user_rbm(), LISTS), rbm.cost(user_rbm(cd_steps=(5,)), LISTS)
    assert five.operations - one.operations == 4 * (2 * 5 + 1) * 7
    assert rbm.cost(user_rbm(cd_steps=(1, 3)), LISTS).operations == rbm.cost(user_rbm(cd_steps=(2,)), LISTS)[0]
    assert (one.read, one.added) == (5 * 7, 2 * 7), "of the rating and of its reconstruction"
    assert rbm.cost(user_rbm(smooth=1.0), LISTS).added == 5 * 7


@pytest.mark.parametrize(("smooth", "moved"), [(0.0, 2), (1.0, 2 * 5)])
def test_a_rating_of_an_rbm_is_summed_sampled_and_moves_rows(smooth: float, moved: int) -> None:
    """Its row is added to the input of the hidden units, then a step is made, then rows times numbers are added."""
    assert rbm.cost(user_rbm(smooth=smooth), LISTS).operations == 7 * (1 + (2 * 5 + 1) + 2 * moved)


@pytest.mark.parametrize("share", [0.25, 0.75])
@pytest.mark.parametrize("smooth", [0.0, 1.0])
def test_all_levels_of_a_masked_rating_are_multiplied_there_and_back(share: float, smooth: float) -> None:
    """One that is left is a row that is added; the rows that are read move, with smooth weights all of a movie."""
    config = masked_rbm.Config(num_items=4, num_values=5, num_hidden=7, smooth=smooth, mask_rate=share)
    found, rows = masked_rbm.cost(config, LISTS), (1 - share) + share * 5
    moved = 5 if smooth else rows
    products = (1 - share) + share * (2 * 5 + 2 * 5)
    assert found.operations == pytest.approx(7 * (products + 2 * moved))
    assert (found.read, found.added) == pytest.approx((7 * rows, 7 * moved))


def test_conditional_models_add_the_rows_of_rated_items() -> None:
    plain, conditional = rbm.cost(user_rbm(), LISTS), crbm.cost(user_rbm(), LISTS)
    assert conditional.read - plain.read == conditional.added - plain.added == 7 * 8 / 4
    assert conditional.operations - plain.operations == 2 * 7 * 8 / 4
    config = cpmf.Config(num_users=3, num_items=4, num_features=10)
    assert cpmf.cost(config, LISTS).operations == 6 * 10 + 3 * 10 * 8 / 4
    moved = 10 + 1 + 10 * 8 / 4
    assert (cpmf.cost(config, LISTS).read, cpmf.cost(config, LISTS).added) == (3 + moved, moved)
