"""Recurrent language models against NumPy's loops over events, and against PyTorch's networks of the same weights."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax

from jaxfit.errors import UserError
from jaxfit.program import Carried
from jaxlm.models.recurrent import gru, lstm, network, rnn
from jaxlm.models.recurrent.masks import draw_masks, word_mask
from jaxlm.models.recurrent.windows import texts

N_W, D, N_H, T, B, EOS = 9, 4, 5, 6, 3, 0
CELLS = {"rnn": rnn, "lstm": lstm, "gru": gru}
each = pytest.mark.parametrize("name", CELLS)


@functools.partial(jax.jit, static_argnums=3)
def hidden(params, given, keys, cfg):
    return network.hidden(params, params.R[given.batch.before], given, keys, cfg)


event_nats = jax.jit(network.event_nats, static_argnums=2)


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


def config(name, **options):
    sizes = {"num_words": N_W, "num_features": D, "num_hidden": N_H, "window": T, "num_layers": 2}
    return CELLS[name].Config(**{**sizes, **options})


def random_params(cfg, seed=0):
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(lambda key: network.init(key, cfg, np.ones(cfg.num_words)), jax.random.key(0))
    return jax.tree.map(lambda x: 0.7 * rng.normal(size=x.shape), shapes)


def random_given(cfg, seed=1):
    """Draw windows with line ends, of which the last has two events beyond the text's end, and states before them."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, 4, B * T - 2).astype(np.int32)
    states = jax.tree.map(lambda s: 0.5 * rng.normal(size=(B, *s.shape)), network.start(cfg))
    return Carried(texts(cfg, EOS)(ids), states), ids


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def numpy_cell(name, p, state, x):
    """Return the state after an event, a tuple with the units last (Mikolov 2010; Hochreiter 1997; Cho 2014)."""

    def product(gate):
        one, other = p[f"i{gate}"], p[f"h{gate}"]
        of_state = state[-1] @ other["kernel"] + other.get("bias", 0)
        return x @ one["kernel"] + one.get("bias", 0), of_state

    if name == "rnn":
        return (sigmoid(sum(product(""))),)
    if name == "gru":
        r, z = sigmoid(sum(product("r"))), sigmoid(sum(product("z")))
        of_input, of_state = product("n")
        return ((1 - z) * np.tanh(of_input + r * of_state) + z * state[-1],)
    i, f, o = (sigmoid(sum(product(gate))) for gate in "ifo")
    c = f * state[0] + i * np.tanh(sum(product("g")))
    return c, o * np.tanh(c)


def numpy_nats(name, cfg, p, windows, states):
    """Return the nats of each event of one window, and the layers' states after it, with a loop over events."""
    nats, states = [], [jax.tree.leaves(state) for state in states]
    for before, word, first in zip(*windows[:3], strict=True):
        if word < 0:
            nats.append(0.0)
            continue
        x = p.R[before]
        for layer in range(cfg.num_layers):
            fresh = first and not cfg.across_lines
            state = [0 * s for s in states[layer]] if fresh else states[layer]
            states[layer] = numpy_cell(name, p.cells[layer], state, x)
            x = states[layer][-1]
        V = p.R if cfg.tied else p.U
        nats.append(-log_softmax(V @ x + p.b)[word])
    return np.array(nats), states


@each
@pytest.mark.parametrize("options", [{}, {"across_lines": False}, {"tied": True, "num_features": N_H}])
def test_nats_and_states_equal_a_loop_over_events(float64, name, options):
    cfg = config(name, **options)
    p, (given, _) = random_params(cfg), random_given(cfg)
    nats, states = event_nats(p, given, cfg)
    for b in range(B):
        of_stream = jax.tree.map(lambda x: np.asarray(x[b]), given)  # noqa: B023
        expected, after = numpy_nats(name, cfg, p, *of_stream)
        np.testing.assert_allclose(nats[b], expected, rtol=1e-10)
        found = [[np.asarray(s[b]) for s in jax.tree.leaves(state)] for state in states]
        for one, other in zip(found, after, strict=True):
            np.testing.assert_allclose(np.stack(one), np.stack(list(other)), rtol=1e-10)


@each
def test_gradients_are_those_of_differentiating_the_loop(float64, name):
    """The gradient by the states' weights is one product over all events, by rules of our own."""
    cfg = config(name)
    p, (given, _) = random_params(cfg), random_given(cfg)
    weight = jnp.array([0.5, 2.0, 1.0])

    def total(nats_and_states):
        nats, states = nats_and_states
        return weight @ nats + sum(jnp.sum(jnp.sin(s)) for s in jax.tree.leaves(states))

    def looped(p, states):
        one = jax.vmap(lambda *window: network.loss(p, Carried(*window), None, cfg))
        return total(one(given.batch, states))

    ours = jax.grad(lambda p, states: total(network.score(p, Carried(given.batch, states), cfg)), (0, 1))
    found, expected = (jax.jit(f)(p, given.carry) for f in (ours, jax.grad(looped, (0, 1))))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11), found, expected)


@each
def test_units_equal_those_of_pytorch(name):
    """Sigmoid units, which PyTorch does not have, are (1 + y) / 2 of its units y, as σ(a) = (1 + tanh(a / 2)) / 2."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    cfg = config(name)
    p, (given, _) = random_params(cfg), random_given(cfg)
    theirs = getattr(torch.nn, name.upper())(D, N_H, num_layers=2, batch_first=True)
    for layer, of_cell in enumerate(p.cells):
        for side, kind in (("i", "ih"), ("h", "hh")):
            parts = [of_cell[f"{side}{gate}"] for gate in cfg.cell.gates]
            weight = np.concatenate([part["kernel"].T for part in parts])
            bias = np.concatenate([part.get("bias", np.zeros(N_H)) for part in parts])
            if name == "rnn":
                weight, bias = weight / 2, bias / 2
                if side == "h" or layer > 0:  # read units
                    weight, bias = weight / 2, bias + weight.sum(axis=1) / 2
            for what, values in (("weight", weight), ("bias", bias)):
                getattr(theirs, f"{what}_{kind}_l{layer}").data = torch.tensor(values, dtype=torch.float32)
    start = [np.stack([jax.tree.leaves(state)[k] for state in given.carry]) for k in range(1 + (name == "lstm"))]
    start = [2 * s - 1 if name == "rnn" else s for s in start]
    state = [torch.tensor(s, dtype=torch.float32) for s in reversed(start)]  # PyTorch: units first
    whole = given.batch._replace(word=np.maximum(given.batch.word, 0))
    found, _ = theirs(
        torch.tensor(p.R[given.batch.before], dtype=torch.float32), tuple(state) if name == "lstm" else state[0]
    )
    ours, _ = hidden(jax.tree.map(jnp.float32, p), Carried(whole, given.carry), None, cfg)
    found = found.detach().numpy()
    np.testing.assert_allclose(ours, (1 + found) / 2 if name == "rnn" else found, atol=1e-5)


@each
@pytest.mark.parametrize("more", [{"recurrent_dropout": 0.4}, {"word_dropout": 0.5}])
def test_what_is_dropped_of_states_and_words_equals_the_specification(float64, name, more):
    """In the losses and gradients; also in those of a cell that keeps a part of its state as it is."""
    cfg = config(name, dropout=0.2, **more)
    p, (given, _) = random_params(cfg), random_given(cfg)
    weight, keys = jnp.array([0.5, 2.0, 1.0]), jax.random.split(jax.random.key(3), B)

    def looped(p):
        one = jax.vmap(lambda window, states, key: network.loss(p, Carried(window, states), key, cfg))
        return weight @ one(given.batch, given.carry, keys)[0]

    ours = jax.jit(jax.value_and_grad(lambda p: network.batch_loss(p, given, weight, keys, cfg)[0]))(p)
    expected = jax.jit(jax.value_and_grad(looped))(p)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11), ours, expected)
    plain = jax.jit(lambda p: network.batch_loss(p, given, weight, keys, config(name, dropout=0.2))[0])(p)
    assert abs(plain - ours[0]) > 1e-3


def test_what_is_dropped_is_equal_for_all_events_of_a_window():
    cfg = config("lstm", dropout=0.5, num_layers=1)
    p, (given, _) = random_params(cfg), random_given(cfg)
    x, _ = hidden(p, given, jax.random.split(jax.random.key(0), B), cfg)
    dropped = np.asarray(x) == 0
    assert 0 < dropped.mean() < 1
    np.testing.assert_array_equal(dropped, np.broadcast_to(dropped[:, :1], dropped.shape))
    assert (dropped[0] != dropped[1]).any()


def test_features_and_the_units_of_each_layer_are_dropped_by_rates_of_their_own_and_independently():
    """Over 4,000 windows, within 5 standard errors."""
    rates = {"dropout": 0.3, "feature_dropout": 0.6, "recurrent_dropout": 0.5}
    cfg, draws = config("rnn", num_features=N_H, **rates), 4000
    keys = jax.random.split(jax.random.key(0), draws)
    features, units, states = jax.jit(jax.vmap(draw_masks, (0, None)), static_argnums=1)(keys, cfg)
    dropped = np.moveaxis(np.concatenate([features[:, None], units, states], axis=1) == 0, 1, 0)
    rates, error = [0.6, 0.3, 0.3, 0.5, 0.5], 2.5 / (draws * N_H) ** 0.5
    np.testing.assert_allclose(dropped.mean(axis=(1, 2)), rates, atol=error)
    for one, other in itertools.combinations(range(5), 2):
        both = (dropped[one] & dropped[other]).mean()
        assert abs(both - rates[one] * rates[other]) < error, (one, other)


def test_a_word_is_dropped_wherever_it_is_in_a_window_and_independently_of_features():
    """Over 4,000 windows, within 5 standard errors; what is kept is divided by its share."""
    cfg, draws = config("rnn", num_features=N_H, feature_dropout=0.5, word_dropout=0.3), 4000
    keys, before = jax.random.split(jax.random.key(0), draws), jnp.array([3, 1, 3, 0])
    found = np.asarray(jax.jit(jax.vmap(word_mask, (0, None, None)), static_argnums=2)(keys, before, cfg))
    np.testing.assert_array_equal(found[:, 0], found[:, 2])
    np.testing.assert_allclose(np.unique(found), [0, 1 / 0.7], rtol=1e-6)
    dropped, error = found == 0, 2.5 / draws**0.5
    np.testing.assert_allclose(dropped.mean(axis=0), 0.3, atol=error)
    for one, other in itertools.combinations((0, 1, 3), 2):
        assert abs((dropped[:, one] & dropped[:, other]).mean() - 0.09) < error
    features = jax.jit(jax.vmap(draw_masks, (0, None)), static_argnums=1)(keys, cfg).features == 0
    for place, word in enumerate(before):
        assert abs((dropped[:, place] & features[:, word]).mean() - 0.15) < error


def test_features_are_as_many_as_units_unless_they_are_given():
    """So that `--num-hidden` alone changes a tied model."""
    assert config("rnn", num_features=0).num_features == N_H
    assert config("rnn", num_features=0, tied=True).num_features == N_H
    assert config("rnn", num_features=D).num_features == D != N_H
    with pytest.raises(UserError, match=r"\(--tied\) - leave --num-features out, or give --no-tied"):
        config("rnn", num_features=D, tied=True)
