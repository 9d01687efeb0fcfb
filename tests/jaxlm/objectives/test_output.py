"""What is reported of scores that noise-contrastive estimation does not normalise, against enumeration."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

from jaxfit.program import Carried
from jaxlm.context_model import Batch
from jaxlm.models import lbl, nlbl, nplm
from jaxlm.models.recurrent import gru, network
from jaxlm.models.recurrent.windows import gather, texts
from jaxlm.objectives import output

N_W, B = 7, 5


def random_params(module, config, seed=0):
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(lambda key: module.init(key, config, np.ones(N_W)), jax.random.key(0))
    return jax.tree.map(lambda x: jnp.asarray(0.7 * rng.normal(size=x.shape)), shapes)


def batch():
    rng = np.random.default_rng(3)
    return Batch(jnp.asarray(rng.integers(0, N_W, (B, 3))), jnp.asarray(rng.integers(0, N_W, B)))


@pytest.mark.parametrize("learned", [False, True])
def test_log_normalizers_are_those_of_an_enumeration_less_the_learned_one(learned):
    with jax.enable_x64(True):
        config = lbl.Config(N_W, num_features=4, context_size=3, objective="nce", learned_normalizer=learned)
        params = random_params(lbl, config)
        scores = np.asarray(lbl.predicted_vector(params, batch().context)) @ np.asarray(params.R).T
        expected = logsumexp(scores + np.asarray(params.b), axis=1) - (float(params.head.log_Z) if learned else 0.0)
        np.testing.assert_allclose(lbl.log_normalizer(params, batch(), config), expected, rtol=1e-12)


@pytest.mark.parametrize("module", [lbl, nlbl, nplm], ids=lambda module: module.MODEL.name)
def test_a_number_added_to_all_scores_is_added_to_log_normalizers_alone(module):
    with jax.enable_x64(True):
        config = module.Config(N_W, num_features=4, context_size=3, objective="nce")
        params, exact = random_params(module, config), output.exact(config)
        shifted = params._replace(b=params.b + 2.5)
        found, ahead = (module.log_normalizer(p, batch(), config) for p in (params, shifted))
        np.testing.assert_allclose(ahead, found + 2.5, rtol=1e-12)
        np.testing.assert_allclose(*(module.score(p, batch(), exact) for p in (params, shifted)), rtol=1e-12)


def test_log_normalizers_of_a_recurrent_model_turn_scores_into_its_probabilities():
    ids = np.array([3, 4, 0, 5, 6, 0, 1, 2], np.int32)
    with jax.enable_x64(True):
        config = gru.Config(N_W, num_features=4, num_hidden=5, window=4, objective="nce", learned_normalizer=True)
        plain = gru.Config(N_W, num_features=4, num_hidden=5, window=4)
        params = random_params(network, config)
        windows = gather(texts(plain, 0)(ids), jnp.arange(2), 0, plain)
        states = jax.tree.map(lambda s: jnp.zeros((2, *s.shape)), network.start(plain))
        given = Carried(windows, states)
        nats, _ = network.event_nats(params, given, plain)
        log_Z, _ = network.event_nats(params, given, config, normalizers=True)
        z, _ = network.hidden(params, params.R[windows.before], given, None, plain)
        scores = jnp.sum(z * params.U[windows.word], axis=-1) + params.b[windows.word] - params.head.log_Z
        np.testing.assert_allclose(scores - log_Z, -nats, rtol=1e-10)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_noise_is_by_the_power_that_is_given_of_the_counts_of_a_text(power):
    """Whose next words are padded with -1; a word that does not occur counts as one that occurs once."""
    words, cfg = np.array([[0, 0, 0, 0], [1, 1, 2, -1]]), lbl.Config(num_words=4, objective="nce", noise_power=power)
    expected = np.array([4, 2, 1, 1]) ** power
    found = output.data(None, words, cfg).noise
    np.testing.assert_allclose(np.exp(found.log_p), expected / expected.sum(), rtol=1e-6)
