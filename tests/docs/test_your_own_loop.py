"""The programs of docs/your-own-loop.md run as they are printed, and train."""

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from scipy.stats import entropy

from blocks import blocks_of
from jaxcf.data import synthetic as ratings
from jaxfit import row_products
from jaxlm.data import default_text
from jaxlm.data import synthetic as text
from jaxlm.objectives import classes

SECTIONS = blocks_of("docs/your-own-loop.md", "python")


@pytest.fixture(scope="module")
def corpus():
    return text.planted(jax.random.key(0), (6000, 600, 600), num_words=60)[0]


@pytest.fixture(scope="module")
def dataset():
    return ratings.planted(jax.random.key(0), ratings.Planted(num_users=300, num_items=60, num_ratings=9000))


@pytest.fixture(autouse=True)
def small_data(monkeypatch, corpus, dataset):
    """Make the data that the programs name smaller."""
    draw = ratings.planted
    monkeypatch.setattr(default_text, "prose", lambda: corpus)
    monkeypatch.setattr(ratings, "planted", lambda key, *sizes: draw(key, *sizes) if sizes else dataset)


def run(code):
    names = {}
    exec(compile(code, "your-own-loop.md", "exec"), names)
    return names


@pytest.mark.parametrize("model", ["LBL", *(pytest.param(m, marks=pytest.mark.extended) for m in ("NPLM", "HLBL"))])
def test_language_models_learn(model):
    (code,) = (block for title, block in SECTIONS if f"({model})" in title)
    names = run(code)
    losses, train = np.array(names["losses"]), names["corpus"].train
    unigram = entropy(np.bincount(train))
    assert losses[0] == pytest.approx(unigram, abs=0.2), "training begins at the base rates"
    assert losses[-10:].mean() < unigram - 0.1
    np.testing.assert_allclose(np.exp(np.asarray(names["log_p"], float)).sum(), 1, rtol=1e-4)


@pytest.mark.parametrize("model", ["PMF", pytest.param("RBM", marks=pytest.mark.extended)])
def test_rating_models_learn(model):
    (code,) = (block for title, block in SECTIONS if f"({model})" in title)
    before, after = run(code)["errors"]
    assert after < 0.97 * before


def test_batched_losses_take_plain_batches():
    codes = [block for title, block in SECTIONS if title == "The batched losses"]
    names = run(codes[0])
    one = jax.vmap(lambda example: names["lbl"].loss(names["params"], example, None, names["config"]))
    np.testing.assert_allclose(names["total"], one(names["batch"]).sum(), rtol=1e-5)
    names = run(codes[1])
    rows = names["data"][:20]
    whole = names["params"]
    predicted = names["pmf"].predict(whole, rows[:, 0], rows[:, 1], names["config"])
    stars = jax.lax.bitcast_convert_type(rows[:, 2], np.float32)
    error = stars + names["config"].mean - predicted  # the data have the mean subtracted
    np.testing.assert_allclose(names["loss"], np.mean(error**2) / 2, rtol=1e-5)
    assert all(g.shape == w.shape for g, w in zip(names["grads"], whole, strict=True))


def test_gradients_on_several_devices_are_those_on_one():
    """On the page's mesh; on one of Explicit axes, within `auto_axes` and `shard_map`, and nowhere else."""
    ((_, code),) = (block for block in SECTIONS if block[0] == "Several devices")
    names = run(code)
    assert names["mesh"].size == len(names["batch"].word.sharding.device_set) == 8
    mean_loss, (params, batch) = names["mean_loss"], jax.device_get((names["params"], names["batch"]))
    gradient = jax.grad(mean_loss)
    expected = jax.tree.leaves(jax.jit(gradient)(params, batch))
    assert all(np.any(x) for x in expected)

    mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Explicit,))
    laid = [jax.device_put(x, NamedSharding(mesh, spec)) for x, spec in ((params, P()), (batch, P("data")))]

    def mean_gradient(params, batch):  # the gradient of what does not vary is summed over devices
        return jax.tree.map(lambda x: x / 8, gradient(params, batch))

    mapped = jax.shard_map(mean_gradient, mesh=mesh, in_specs=(P(), P("data")), out_specs=P())
    with jax.set_mesh(mesh):
        automatic = jax.jit(jax.sharding.auto_axes(gradient, out_sharding=P()))(*laid)
        with pytest.raises(Exception, match="out_sharding"):
            jax.jit(gradient)(*laid)
    for found in (names["grads"], automatic, jax.jit(mapped)(*laid)):
        for x, y in zip(jax.tree.leaves(found), expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-7)


def test_other_objectives_have_their_batches():
    """All but noise-contrastive estimation begin near the base rates; the gradient reaches all parameters."""
    ((_, code),) = (block for block in SECTIONS if block[0] == "Other objectives")
    names = run(code)
    unigram = entropy(np.bincount(names["corpus"].train))
    assert set(names["found"]) == {"softmax", "classes", "tree", "nce", "importance"}
    for objective, (loss, grads) in names["found"].items():
        assert objective == "nce" or loss == pytest.approx(unigram, abs=0.2)
        assert np.isfinite(loss)
        assert all(np.any(grad) for grad in jax.tree.leaves(grads))


def test_second_derivatives_of_batched_losses_are_those_of_the_specification():
    names = run(next(block for title, block in SECTIONS if title == "The batched losses"))
    lbl, batch, config, params = (names[name] for name in ("lbl", "batch", "config", "params"))

    def together(params):
        return lbl.batch_loss(params, batch, names["weight"], None, config)[0]

    def each(params):
        return jax.vmap(lambda example: lbl.loss(params, example, None, config))(batch).sum()

    expected = jax.tree.leaves(jax.jit(jax.hessian(each))(params))
    for second in (jax.hessian(together), jax.jacrev(jax.jacrev(together))):
        for found, known in zip(jax.tree.leaves(jax.jit(second)(params)), expected, strict=True):
            np.testing.assert_allclose(found, known, rtol=1e-4, atol=1e-5)
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(together, (params,), (params,))
    jax.jvp(each, (params,), (params,))


def test_losses_over_classes_and_of_cbow_have_one_way_to_second_derivatives():
    x, ends, word = jax.numpy.ones((6, 3)), (2, 6), np.arange(6)

    def of_classes(z):
        return classes.sum_nll(x, x[:, 0], x[:2], x[:2, 0], z, word, x[:, 0], ends)

    def of_cbow(z):
        return (row_products.scores(z[None], x[None]) ** 3).sum()

    for loss, works, fails in ((of_classes, jax.jacfwd, jax.jacrev), (of_cbow, jax.jacrev, jax.jacfwd)):
        assert jax.numpy.isfinite(jax.jit(works(jax.jacrev(loss)))(x)).all()
        with pytest.raises((TypeError, ValueError), match=r"forward-mode|Reverse-mode"):
            jax.jit(fails(jax.jacrev(loss)))(x)
        with pytest.raises(TypeError, match="forward-mode"):
            jax.jvp(loss, (x,), (x,))


def test_a_step_on_all_devices_equals_one_on_a_single_device():
    """The program of docs/coming-from-pmap.md, which compares them."""
    ((_, code),) = blocks_of("docs/coming-from-pmap.md", "python")
    names = run(code)
    assert names["mesh"].size == 8
    assert any(np.any(grad) for grad in jax.tree.leaves(names["many"]))
