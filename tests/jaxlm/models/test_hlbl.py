"""The hierarchical log-bilinear model against walks from the root, and against its own specification."""

import functools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax

from jaxfit.tables import Head, Weights, add
from jaxlm.context_model import combined
from jaxlm.models.hlbl import model as hlbl
from jaxlm.trees.order import by_visits, visits
from jaxlm.trees.paths import Tree, base_rates, node_biases

V, C, D = 9, 3, 5
LEFT, RIGHT = 1, -1


def random_tree(seed, num_words=V, twice=0.0, copies=1):
    """children[nodes, 2] of a random tree whose words go both ways at a node with probability `twice`."""
    rng = np.random.default_rng(seed)
    children = []

    def grow(words, copies=1):
        if copies == 1 and len(words) == 1:
            return ~int(words[0])
        node = len(children)
        children.append([0, 0])
        if copies > 1:
            left, right, below = words, words, copies // 2
        else:
            words, below = rng.permutation(words), 1
            cut = rng.integers(1, len(words))
            left, right = words[:cut], words[cut:]
            also = right[rng.random(len(right)) < twice][: len(words) - 1 - len(left)]
            left = np.concatenate([left, also])
        children[node] = [grow(left, below), grow(right, below)]
        return node

    grow(np.arange(num_words), copies)
    return np.array(children, np.int32)


TREES = {
    "one code a word": random_tree(0),
    "several codes": random_tree(1, twice=0.4),
    "overcomplete": random_tree(2, twice=0.3, copies=4),
    "chain": np.array([[~i, i + 1] for i in range(V - 2)] + [[~(V - 2), ~(V - 1)]], np.int32),
}
ALL_TREES = pytest.mark.parametrize("children", TREES.values(), ids=TREES.keys())
ALL_TREES_AND_MATRICES = pytest.mark.parametrize(
    ("children", "diagonal"),
    [(children, True) for children in TREES.values()] + [(TREES["several codes"], False)],
    ids=[*TREES, "several codes, full matrices"],
)


def codes_of(children):
    """Return for each word its codes: lists of (node, sign) from the root."""
    codes = {}

    def walk(node, path):
        for sign, child in zip((LEFT, RIGHT), children[node], strict=True):
            step = [*path, (node, sign)]
            if child >= 0:
                walk(child, step)
            else:
                codes.setdefault(~int(child), []).append(step)

    walk(0, [])
    return [codes[w] for w in range(len(codes))]


def make_params(children, seed=0, diagonal=True):
    config = hlbl.Config(V, len(children), num_features=D, context_size=C, diagonal=diagonal)
    shapes = jax.eval_shape(lambda key: hlbl.init(key, config, np.ones(V), Tree(children, V)), jax.random.key(seed))
    rng = np.random.default_rng(seed)
    return config, jax.tree.map(lambda x: rng.normal(size=x.shape), shapes)


def brute_force(params, context, children):
    """P(w | context) by walking every code of every word (Eq. 4.1, 4.4-4.7) in NumPy."""
    R, C_, Q, b = (np.asarray(p, np.float64) for p in params)
    r_hat = sum((c * R[w] if c.ndim == 1 else c @ R[w]) for c, w in zip(C_, context, strict=True))
    return [
        sum(np.prod([1 / (1 + np.exp(-sign * (Q[q] @ r_hat + b[q]))) for q, sign in code]) for code in word)
        for word in codes_of(children)
    ]


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("diagonal", [True, False])
def test_the_first_predicted_vector_is_about_the_average_of_the_context(diagonal):
    config = hlbl.Config(V, V - 1, num_features=400, context_size=C, diagonal=diagonal)
    params = hlbl.init(jax.random.key(1), config, np.ones(V), Tree(TREES["chain"], V))
    vectors = jax.random.normal(jax.random.key(2), (C, 400))
    found, average = combined(params.C, vectors), vectors.mean(axis=0)
    assert jnp.linalg.norm(found - average) < 0.1 * jnp.linalg.norm(average)


log_prob = jax.jit(hlbl.log_prob, static_argnums=2)


@ALL_TREES_AND_MATRICES
def test_log_prob_is_a_walk_from_the_root(children, diagonal, float64):
    config, params = make_params(children, diagonal=diagonal)
    for context in ([0, 1, 2], [8, 8, 3]):
        p = np.exp(log_prob(params, np.array(context), config, children))
        np.testing.assert_allclose(p, brute_force(params, context, children), rtol=1e-12)
        assert p.sum() == pytest.approx(1, abs=1e-12)


@pytest.fixture(params=[3, 64])
def num_hot(request, monkeypatch):
    """Set the number of nodes that are dense, whatever the tree."""
    monkeypatch.setattr(hlbl.Config, "num_hot", property(lambda config: min(request.param, config.num_nodes)))


def make_batch(config, children, index, padding=0, seed=3):
    """Return a minibatch of a random text, the text with its contexts, and its words."""
    text = np.random.default_rng(seed).integers(0, V, 40).astype(np.int32)
    data = hlbl.make_data(text, Tree(children, V), config, eos=0)
    program = hlbl.program(config)
    capacity = tuple(int(n) + padding for n in np.asarray(program.ragged.costs(data))[index].sum(axis=0))
    gather = jax.jit(program.batch, static_argnums=(2, 3))
    return gather(data, index.astype(np.int32), capacity, config), np.pad(text, (C, 0)), text


INDEX = np.array([4, 29, 4, 0, 39, 17])


@ALL_TREES_AND_MATRICES
@pytest.mark.parametrize("padding", [0, 57])
def test_score_is_that_of_the_whole_distribution(children, diagonal, padding, num_hot, float64):
    config, params = make_params(children, diagonal=diagonal)
    batch, padded, text = make_batch(config, children, INDEX, padding)
    scores = np.asarray(jax.jit(hlbl.score, static_argnums=2)(params, batch, config))
    for i, score in zip(INDEX, scores, strict=True):
        p = brute_force(params, padded[i : i + C], children)
        assert score == pytest.approx(-np.log(p[text[i]]), rel=1e-12)


def padded_codes(children, word):
    """Return the word's codes as `hlbl.loss` takes them: nodes and signs, [codes, depth]."""
    codes = codes_of(children)[word]
    out = np.zeros((2, 12, 40), int)
    for i, code in enumerate(codes):
        out[:, i, : len(code)] = np.array(code).T
    return out[0], out[1]


@jax.jit
def dense(grads, like):
    """Turn a gradient in parts into arrays like the parameters."""
    return hlbl.Params(
        *(
            add(jnp.zeros_like(x), g, jnp.ones(())) if isinstance(g, tuple) else g
            for g, x in zip(grads, like, strict=True)
        )
    )


@functools.partial(jax.jit, static_argnums=6)
@jax.value_and_grad
def specification(params, contexts, nodes, signs, weight, keys, config):
    each = jax.vmap(lambda *example: hlbl.loss(params, example[:3], example[3], config))
    return weight @ each(contexts, nodes, signs, keys)


@ALL_TREES_AND_MATRICES
@pytest.mark.parametrize(("dropout", "padding"), [(0.4, 31), (0.0, 31)])
def test_minibatch_is_the_sum_of_examples(children, diagonal, dropout, padding, num_hot, float64):
    config, params = make_params(children, diagonal=diagonal)
    config = replace(config, dropout=dropout)
    batch, padded, text = make_batch(config, children, INDEX, padding)
    weight = np.array([1.0, 0.5, 2.0, 1.0, 0.0, 1.0])
    keys = jax.random.split(jax.random.key(5), len(INDEX))
    contexts = np.stack([padded[i : i + C] for i in INDEX])
    nodes, signs = (np.stack(x) for x in zip(*(padded_codes(children, text[i]) for i in INDEX), strict=True))

    def by_rows(params):
        read = hlbl.program(config).gathered(params, batch)
        return hlbl.batch_loss(read, batch, weight, keys, config)

    expected, expected_grads = specification(params, contexts, nodes, signs, weight, keys, config)
    (by_differentiation, metrics), its_grads = jax.jit(jax.value_and_grad(by_rows, has_aux=True))(params)
    by_hand, its_metrics, parts = gradient(scaled(params), batch, weight, keys, config)
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-12), metrics, its_metrics)
    assert metrics["perplexity"] == (by_differentiation, weight.sum())
    for found, grads in ((by_differentiation, its_grads), (by_hand, parts)):
        assert float(found) == pytest.approx(float(expected), rel=1e-12)
        for grad, right in zip(dense(grads, expected_grads), expected_grads, strict=True):
            np.testing.assert_allclose(grad, right, rtol=1e-9, atol=1e-12)


gradient = jax.jit(hlbl.gradient, static_argnums=4)


def scaled(params):
    """Return the parameters as the engine stores them: weights are scale * value."""
    scales = hlbl.Params(R=0.5, C=1.0, Q=3.0, b=0.25)
    return hlbl.Params(*(Weights(p / s, np.float64(s), None, None) for p, s in zip(params, scales, strict=True)))


@ALL_TREES
def test_only_rows_on_the_paths_have_a_gradient(children, num_hot):
    config, params = make_params(children)
    batch, padded, text = make_batch(config, children, INDEX, padding=20)
    *_, grads = gradient(scaled(params), batch, np.ones(len(INDEX)), None, config)
    arrays = dense(grads, params)
    on_paths = {node for i in INDEX for code in codes_of(children)[text[i]] for node, _ in code}
    in_contexts = {int(w) for i in INDEX for w in padded[i : i + C]}
    for parts, table, rows in (
        (grads.R, arrays.R, in_contexts),
        (grads.Q, arrays.Q, on_paths),
        (grads.b, arrays.b, on_paths),
    ):
        dense_rows = np.asarray(table).reshape(len(table), -1)
        assert set(np.flatnonzero(np.abs(dense_rows).max(axis=1))) == rows
        named = [np.asarray(part.ids) for part in parts if not isinstance(part, Head)]
        hot = range(config.num_hot) if any(isinstance(part, Head) for part in parts) else ()
        assert set(np.concatenate(named)) - {len(table)} <= rows | set(hot)


@ALL_TREES
def test_words_have_their_base_rates_when_all_else_is_zero(children):
    counts = np.array([50, 1, 0, 7, 3, 20, 2, 0, 9])
    config, _ = make_params(children)
    tree = Tree(children, V)
    params = hlbl.init(jax.random.key(0), replace(config, init_scale=0.0), counts, tree)
    p = np.exp(log_prob(params, np.array([1, 2, 3]), config, children))
    np.testing.assert_allclose(p, base_rates(counts), rtol=2e-5)


@ALL_TREES
def test_a_tree_joined_with_its_copy_changes_nothing(children, float64):
    config, params = make_params(children)
    n = len(children)
    copies = [np.where(children >= 0, children + shift, children) for shift in (1, 1 + n)]
    joined = np.concatenate([[[1, 1 + n]], *copies]).astype(np.int32)
    root = np.random.default_rng(9)
    doubled = params._replace(
        Q=np.concatenate([root.normal(size=(1, D)), params.Q, params.Q]),
        b=np.concatenate([root.normal(size=1), params.b, params.b]),
    )
    context = np.array([3, 1, 4])
    once = log_prob(params, context, config, children)
    twice = log_prob(doubled, context, config, joined)
    np.testing.assert_allclose(twice, once, rtol=1e-12)


def test_a_tree_of_depth_one_is_the_softmax_over_two_words(float64):
    children = np.array([[~0, ~1]], np.int32)
    rng = np.random.default_rng(0)
    r, bias = rng.normal(size=(2, D)), rng.normal(size=2)
    R, C_ = rng.normal(size=(2, D)), rng.normal(size=(C, D))
    params = hlbl.Params(R, C_, (r[0] - r[1])[None], bias[:1] - bias[1:])
    context = [1, 0, 1]
    r_hat = np.sum(C_ * R[context], axis=0)
    expected = log_softmax(r @ r_hat + bias)
    found = log_prob(params, np.array(context), hlbl.Config(2, 1, num_features=D, context_size=C), children)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@ALL_TREES
def test_order_of_nodes_in_memory_does_not_change_the_model(children, float64):
    counts = np.array([50, 1, 0, 7, 3, 20, 2, 0, 9])
    tree = Tree(children, V)
    ordered = by_visits(tree, counts, 3)
    assert (ordered.children[ordered.children >= 0] > np.nonzero(ordered.children >= 0)[0]).all()
    count = visits(ordered, counts)
    np.testing.assert_array_equal(np.sort(count), np.sort(visits(tree, counts)))
    assert (count[:3] == np.sort(count)[::-1][:3]).all()
    # parameters that follow from the words below a node give both the same distribution
    Q = np.zeros((len(children), D))
    for t in (tree, ordered):
        config, params = make_params(t.children)
        params = params._replace(Q=Q, b=node_biases(t, counts))
        p = np.exp(log_prob(params, np.array([1, 2, 3]), config, t.children))
        np.testing.assert_allclose(p, base_rates(counts), rtol=1e-12)


def test_the_tables_of_a_tree_are_made_once(monkeypatch):
    """Any number of texts over one tree, each the same as made by itself."""
    config = hlbl.Config(num_words=V, num_nodes=V - 1, num_features=D, context_size=C)
    tree = Tree(TREES["chain"], V)
    texts = [np.random.default_rng(seed).integers(0, V, 10 + seed).astype(np.int32) for seed in range(3)]
    alone = [hlbl.make_data(text, tree, config, eos=0) for text in texts]
    calls, make_data = [], hlbl.make_data
    monkeypatch.setattr(hlbl, "make_data", lambda *args: calls.append(args) or make_data(*args))
    make = hlbl.texts_over(tree, config, eos=0)
    jax.tree.map(np.testing.assert_array_equal, [make(text) for text in texts], alone)
    assert len(calls) == 1
