"""RBMs' decay by the number of ratings: with few, `full_decay` lets less of it be applied."""

import jax
import numpy as np
import pytest

from jaxcf.contract import NO_PAIRS
from jaxcf.data.ratings import Catalogue, Dataset, Ratings, RatingScale
from jaxcf.models import crbm, masked_rbm
from jaxcf.models.rbm import model as rbm
from jaxcf.models.rbm.config import decay_share
from jaxfit.errors import UserError

USERS, ITEMS, SCALE = 5, 7, RatingScale(1, 3, 1)
USER, ITEM = np.array([0, 0, 0, 1, 3, 3, 3, 3], np.int32), np.array([0, 3, 4, 1, 5, 0, 2, 4], np.int32)
KNOWN = Ratings(USER, ITEM, np.full(len(USER), 2, np.float32))
DATA = Dataset("toy", KNOWN, KNOWN, None, Catalogue(np.arange(USERS), np.arange(ITEMS), SCALE), "", "")
MEAN = 8 / np.sqrt(3 * 6)  # of 3 users and 6 movies with ratings; others do not count


def config(model=rbm, **options):
    return model.Config(num_items=ITEMS, num_values=3, num_hidden=2, **options)


def test_decay_is_less_in_proportion_where_users_and_movies_have_fewer_ratings():
    assert decay_share(DATA, config()) == 1
    assert decay_share(DATA, config(full_decay=MEAN / 2)) == 1
    assert decay_share(DATA, config(full_decay=5 * MEAN)) == pytest.approx(0.2)
    fewer = DATA._replace(train=Ratings(*(x[:4] for x in KNOWN[:3])))  # of 2 users and 4 movies
    assert decay_share(fewer, config(full_decay=10.0)) == pytest.approx(4 / np.sqrt(2 * 4) / 10)


@pytest.mark.parametrize("model", [rbm, crbm, masked_rbm])
@pytest.mark.parametrize("full_decay", [0.0, 100.0])
def test_training_has_the_share_of_decay(model, full_decay):
    settings = config(model, full_decay=full_decay)
    setup = model.prepare(jax.random.key(0), DATA, NO_PAIRS, settings)
    assert setup.program.decay.share == decay_share(DATA, settings)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"full_decay": -1.0}, r"--full-decay must be 0 or more \(--full-decay -1.0\)"),
        ({"full_decay": 9.0, "prior": "per-rating"}, "the prior per-row alone .* - add --smooth 0 --full-decay 0$"),
        ({"smooth": 1.0, "prior": "per-rating"}, "the prior per-row alone .* - add --smooth 0 --full-decay 0$"),
    ],
)
def test_a_share_of_decay_that_has_no_meaning_is_refused(options, said):
    with pytest.raises(UserError, match=said):
        config(**options)
