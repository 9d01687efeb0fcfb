"""The hierarchical log-bilinear model against walks from the root, and against its own specification."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlm import hlbl

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


def codes_of(children):
    """For each word, its codes: lists of (node, sign) from the root."""
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


def make_data(children, text):
    words = codes_of(children)
    codes = [code for word in words for code in word]
    return hlbl.Data(
        padded=jnp.concatenate([jnp.zeros(C, jnp.int32), jnp.asarray(text, jnp.int32)]),
        word_codes=jnp.cumsum(jnp.array([0] + [len(word) for word in words], jnp.int32)),
        code_nodes=jnp.cumsum(jnp.array([0] + [len(code) for code in codes], jnp.int32)),
        nodes=jnp.array([node for code in codes for node, _ in code], jnp.int32),
        signs=jnp.array([sign for code in codes for _, sign in code], jnp.int8),
    )


def make_params(children, seed=0):
    config = hlbl.Config(V, len(children), num_features=D, context_size=C)
    params = hlbl.init(jax.random.key(seed), config, np.zeros(len(children)))
    rng = np.random.default_rng(seed)
    return config, jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape)), params)


def brute_force(params, context, children):
    """P(w | context) by walking every code of every word (Eq. 4.4-4.7) in NumPy."""
    R, C_, Q, b = (np.asarray(p, np.float64) for p in params)
    r_hat = sum(c * R[w] for c, w in zip(C_, context, strict=True))
    return [
        sum(np.prod([1 / (1 + np.exp(-sign * (Q[q] @ r_hat + b[q]))) for q, sign in code]) for code in word)
        for word in codes_of(children)
    ]


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


@ALL_TREES
def test_log_prob_is_a_walk_from_the_root(children, float64):
    _, params = make_params(children)
    for context in ([0, 1, 2], [8, 8, 3]):
        p = jnp.exp(hlbl.log_prob(params, jnp.array(context), jnp.asarray(children), V))
        np.testing.assert_allclose(p, brute_force(params, context, children), rtol=1e-12)
        assert float(p.sum()) == pytest.approx(1, abs=1e-12)


@ALL_TREES
@pytest.mark.parametrize("room", [0, 1, 57])
def test_score_is_that_of_the_whole_distribution(children, room, float64):
    config, params = make_params(children)
    text = np.random.default_rng(3).integers(0, V, 30)
    data, program = make_data(children, text), hlbl.program(config, 0)
    index = jnp.array([4, 29, 4, 0, 17])
    capacity = int(program.costs(data)[index].sum()) + room
    scores = program.score(params, program.batch(data, index, capacity))
    for i, score in zip(index, scores, strict=True):
        p = brute_force(params, data.padded[i : i + C], children)
        assert float(score) == pytest.approx(-np.log(p[text[i]]), rel=1e-12)
