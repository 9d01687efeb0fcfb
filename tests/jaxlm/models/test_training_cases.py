"""Training on the distribution of the next word after a context (§3.4.1): specification, and words' gradient."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlm.context_model import texts
from jaxlm.models import frbm, lbl

N_W, D, C, N_H = 7, 3, 2, 4


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize(
    ("model", "options", "dropout"),
    [
        (frbm, {"objective": "cd", "num_hidden": N_H}, 0.4),
        (frbm, {"objective": "mean-field", "num_hidden": N_H}, 0.0),
        (lbl, {}, 0.0),
        (lbl, {}, 0.4),
    ],
)
def test_batch_of_distributions_equals_the_specification(model, options, dropout, float64):
    ids = np.array([1, 2, 3, 1, 2, 4, 1, 2, 3, 0], np.int32)
    sizes = {"num_words": N_W, "num_features": D, "context_size": C, "targets": "contexts", "dropout": dropout}
    cfg = model.Config(**sizes, **options)
    program, data = model.program(cfg), texts(cfg, 0)(ids)
    costs, weight = program.ragged.costs(data), np.arange(1.0, 11)
    params = jax.tree.map(
        lambda x: x.astype(float), model.init(jax.random.key(1), cfg, np.bincount(ids, minlength=N_W))
    )
    keys = jax.random.split(jax.random.key(7), 10)

    @partial(jax.jit, static_argnums=3)
    def weighted(k, weight, key, entries):
        one = program.batch(data, k[None], entries, cfg)
        one = one._replace(context=one.context[0], word=one.word[0])
        return jax.value_and_grad(lambda p: weight * model.loss(p, one, key, cfg))(params)

    each = [weighted(np.int32(k), weight[k], keys[k], int(costs.max())) for k in range(10)]
    batch = program.batch(data, jnp.arange(10), int(costs.sum()), cfg)
    found = jax.jit(jax.value_and_grad(lambda p: model.batch_loss(p, batch, weight, keys, cfg)[0]))(params)
    expected = jax.tree.map(lambda *parts: sum(np.asarray(x) for x in parts), *each)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), found, expected)


def test_training_cases_have_the_gradient_of_the_words(float64):
    """Over a whole text, the distributions after contexts give the LBL's gradient, as they are means of its words."""
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 5, 200).astype(np.int32)
    sizes = {"num_words": 5, "num_features": 3, "context_size": 2}
    found = []
    for targets in ("words", "contexts"):
        cfg = lbl.Config(**sizes, targets=targets)
        program, data = lbl.program(cfg), texts(cfg, 0)(ids)
        entries = int(program.ragged.costs(data).sum()) if program.ragged else 0
        batch = program.batch(data, jnp.arange(200), entries, cfg)
        params = jax.tree.map(
            lambda x: x.astype(float), lbl.init(jax.random.key(1), cfg, np.bincount(ids, minlength=5))
        )
        loss = partial(lbl.batch_loss, batch=batch, weight=jnp.ones(200), keys=None, config=cfg)
        found.append(jax.jit(jax.grad(loss, has_aux=True))(params)[0])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), *found)
    assert np.linalg.norm(np.concatenate([x.ravel() for x in jax.tree.leaves(found[0])])) > 1
