"""The pure functions of every model that the engine fits: batches, specification, gradients, scores."""

import itertools
from functools import cache
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import PartitionSpec as P

import jaxlm
from cases import OBJECTIVES, SMALL, TOYS, assert_same, every, specification
from jaxcf.contract import NO_PAIRS
from jaxcf.data.ratings import Units
from jaxfit import tables
from jaxfit.devices import sharding
from jaxfit.minibatches.bucketing import capacity
from jaxfit.program import Carried
from jaxfit.state import streams
from jaxfit.validation import Validation
from jaxlm.contract import structure_argument

B, STEP = 8, 0.02
WEIGHT = np.array([1, 0.5, 2, 1, 0, 1, 0.25, 1], np.float32)
CASES = [case for case in every(objectives=True) if case.by_sgd]


def setup(case, place, seed=3, **overrides):
    """Return the program, parameters before training and training data, at the model's own defaults, or at a toy's."""
    is_toy = case.record.name in {**OBJECTIVES, **TOYS[case.package]}
    key, fields = jax.random.key(seed), case.fields(case.record.recipes["tuned"][1] if is_toy else {}) | overrides
    if case.package is not jaxlm:
        data = place.dataset
        config = case.record.configure(data.catalogue, Units.of(data.train.stars, data.catalogue.scale), fields)
        return case.fitting.prepare(key, data, NO_PAIRS, config)[:3]
    corpus, structure, fitting = place.read_by(case.record), case.record.structure_of(fields), case.fitting
    words, counts = corpus.vocabulary, corpus.word_counts()
    built = structure and structure.stand_in(structure.choose(fields, {}), len(words), counts)
    config, more = case.record.configure(len(words), built, fields, counts), structure_argument(built)
    data = fitting.texts(config, words.eos, *more)(corpus.train)
    return fitting.program(config), fitting.init(key, config, counts, *more), data


def normal(seed, leaves):
    """Draw standard normal arrays of the shapes of others."""
    rng = np.random.default_rng(seed)
    return [rng.normal(size=x.shape).astype(np.float32) for x in leaves]


def drops(program):
    """Return whether training leaves out some units."""
    return any(rate for name, rate in vars(program.config).items() if name.endswith("dropout"))


def validated_alike(program):
    """Return whether training reports what validation does."""
    return program.loss_metrics == (program.metric,) and program.at_step is None and not drops(program)


@pytest.fixture(scope="module")
def computed(place):
    """Return a function from a case to all that its tests compare, computed by one program."""

    @cache
    def of(case):
        program, params, data = setup(case, place)
        config, sparse = program.config, program.sparse
        # a sequence's examples are those of its streams, not of its order
        index = np.random.default_rng(1).permutation(program.size(data))[:B].astype(np.int32)
        costs = program.ragged.costs(data) if program.ragged else None
        capacities = [capacity(costs, index, number) for number in (B, 1)]

        def batch_of(index, number, key, step):
            batch = program.batch(data, index, number, config)
            if program.at_step is None or not step:
                return batch
            return program.at_step(batch, key, jnp.float32(0.5), config)

        def seen(batch, carry):
            return batch if program.sequential is None else Carried(batch, carry)

        def loss(params, batch, weight, keys, carry):
            return program.loss(program.gathered(params, batch), seen(batch, carry), weight, keys, config)

        @jax.jit
        def everything(params, index, weight, keys, shared, carry):
            batch = batch_of(index, capacities[0], shared, True)
            (total, after), grads = jax.value_and_grad(
                lambda p: (lambda result: (result[0], result[1:]))(loss(p, batch, weight, keys, carry)), has_aux=True
            )(params)  # fmt: skip

            def single(i):
                one = batch_of(index[i][None], capacities[1], shared, True)
                own = jax.tree.map(lambda x: x[i][None], carry)
                return loss(params, one, weight[i][None], keys[i][None], own)

            found = {"loss": total, "grads": grads, "metrics": dict(after[0]), "carry": after[1:]}
            singles = jax.lax.map(single, jnp.arange(B))
            found["sum of singles"] = jax.tree.map(lambda x: x.sum(axis=0), singles[:2])
            found["carries of singles"] = jax.tree.map(lambda x: x[:, 0], singles[2:])
            specified = specification(program, seen(batch, carry))

            def of_specification(params):
                examples = seen(batch, carry)
                # what lies flat, or is shared, is no example's
                own = jax.tree.map(lambda x: 0 if x.shape[:1] == (B,) else None, examples)
                values = jax.vmap(specified, (None, own, 0))(params, examples, keys)
                losses, *carried = values if isinstance(values, tuple) else (values,)
                return weight @ losses, tuple(carried)

            if specified is not None:
                (specified_loss, carried), gradient = jax.value_and_grad(of_specification, has_aux=True)(params)
                found["specification"], found["specified carry"] = (specified_loss, gradient), carried
            if sparse is not None and sparse.gradient is not None:
                weights = jax.tree.map(lambda x: tables.create(x, optax.identity(), by_rows=True), params)
                _, metrics, parts = sparse.gradient(weights, batch, weight, keys, config)
                leaves, tree = jax.tree.flatten(params)
                dense = [
                    tables.add(jnp.zeros_like(x), g, jnp.float32(1)) if isinstance(g, tuple) else g
                    for x, g in zip(leaves, tree.flatten_up_to(parts), strict=True)
                ]
                found["own gradient"] = tree.unflatten(dense), dict(metrics)
            plain = batch_of(index, capacities[0], shared, False)
            if validated_alike(program):
                scores = program.score(params, seen(plain, carry), config)
                found["score"] = weight @ (scores[0] if program.sequential else scores)
            if program.sequential and not drops(program):
                found["carry of validation"] = program.score(params, seen(plain, carry), config)[1:]
            if program.visits is not None:
                found["visit"] = visited(params, index[0])
            return found

        def visited(params, example):
            """Return how far one visit moves the parameters for each unit of the rate, and the gradient there."""
            rate = 1e-3
            weights = jax.tree.map(lambda x: tables.create(x, optax.identity(), by_rows=True), params)
            rates, decays = (jax.tree.map(lambda x, c=c: jnp.float32(c), params) for c in (rate, 0))
            moved = program.visits.visit(weights, data, example, rates, decays, config)[2]
            by = jax.tree.map(lambda w, x: (x - tables.whole(w)) / rate, moved, params, is_leaf=tables.is_weights)
            one = batch_of(example[None], capacities[1], None, False)
            return by, jax.grad(lambda p: loss(p, one, jnp.ones(1), None, None)[0])(params)

        def at(params, seed=5):
            keys = jax.random.split(jax.random.key(seed), B)
            return everything(params, index, WEIGHT, keys, jax.random.key(6), carry)

        carry = start = streams(program, B) if program.sequential else None
        if program.sequential:  # what streams carry after a minibatch
            keys = jax.random.split(jax.random.key(8), B)
            carry = loss(params, batch_of(index, 0, jax.random.key(6), True), WEIGHT, keys, start)[2]
        # away from the start, where much is zero; what has no gradient, by any of its ways, is of no use to this model
        first, (leaves, tree) = at(params), jax.tree.flatten(jax.device_get(params))
        ways = [first["grads"], *first.get("specification", ())[1:], *first.get("own gradient", ())[:1]]
        ways += first.get("visit", ())[:1]
        used = [any(np.any(x) for x in each) for each in zip(*map(jax.tree.leaves, jax.device_get(ways)), strict=True)]
        noise = normal(4, leaves)
        params = tree.unflatten([x + 0.1 * n if u else x for x, u, n in zip(leaves, used, noise, strict=True)])
        return SimpleNamespace(program=program, params=params, at=at, found=at(params))

    return of


def parameter(case):
    """Return the case as a parameter, extended if it replaces a model's own objective."""
    return pytest.param(case, id=str(case), marks=pytest.mark.extended if case.record.name in OBJECTIVES else [])


# one case after another
pytestmark = pytest.mark.parametrize("case", [parameter(case) for case in CASES], scope="module")


def close(one, other):
    assert_same(one, other, rtol=2e-4, atol=2e-4)


def test_loss_of_a_minibatch_is_the_sum_over_its_examples(case, computed):
    found = computed(case).found
    close(found["sum of singles"], (found["loss"], found["metrics"]))
    close(found["carries of singles"], found["carry"])


def test_loss_of_a_minibatch_is_the_sum_of_the_specification(case, computed):
    found = computed(case).found
    if "specification" not in found:
        pytest.skip("it has no `loss` of one example of its batches: see the model's own tests")
    close((found["loss"], found["grads"]), found["specification"])
    close(found["carry"], found["specified carry"])


def test_gradient_is_that_of_the_loss(case, computed):
    """By finite differences, unless samples depend on the parameters; also the program's own, and that of visits.

    Where they do, the gradient is compared with that of the specification, above.
    """
    it = computed(case)
    draws = it.at(it.params, seed=7)["loss"] != it.found["loss"]
    leaves, tree = jax.tree.flatten(jax.device_get(it.params))
    for seed in range(0 if draws else 3):
        unit = [u / np.linalg.norm(u) for u in normal(seed, leaves)]
        ahead, behind = (
            float(it.at(tree.unflatten([x + s * u for x, u in zip(leaves, unit, strict=True)]))["loss"])
            for s in (STEP, -STEP)
        )
        slope = sum(np.vdot(u, g) for u, g in zip(unit, jax.tree.leaves(it.found["grads"]), strict=True))
        np.testing.assert_allclose((ahead - behind) / (2 * STEP), slope, rtol=0.01, atol=0.01)
    if "own gradient" in it.found:
        close(it.found["own gradient"], (it.found["grads"], it.found["metrics"]))
    if "visit" in it.found:
        assert_same(*it.found["visit"], rtol=0.05, atol=0.02)
    known = {"own gradient", "specification"} & it.found.keys()
    assert not draws or known, "a loss that samples needs a test of its gradient of its own"


def test_initial_arrays_are_drawn_independently(case, place):
    """Two that are drawn by one key begin with the same numbers, or with multiples of them."""
    leaves = map(np.ravel, jax.tree.leaves(jax.device_get(setup(case, place)[1])))
    drawn = [x for x in leaves if len(x) >= 16 and np.std(x) > 0]
    for one, other in itertools.combinations(drawn, 2):
        number = min(len(one), len(other))
        assert abs(np.corrcoef(one[:number], other[:number])[0, 1]) < 0.95


def test_initial_tables_are_as_large_as_init_scale_says(case, place):
    """All that are drawn of a row or number for each word, node, user or item: twice as large at twice the scale."""
    scale = case.fields({}).get("init_scale")
    if scale is None:
        pytest.skip("its Config has no init_scale")
    given = {"init_scale": scale}, {"init_scale": 2 * scale}, {"init_scale": scale, "seed": 4}
    of_each = zip(*(jax.tree.leaves(jax.device_get(setup(case, place, **each)[1])) for each in given), strict=True)
    tables = [each for each in of_each if each[0].ndim > 0 and 2 * len(each[0]) > 3 * SMALL]
    if not tables:
        pytest.skip("no parameter has a row for each word, node, user or item")
    drawn = [each for each in tables if np.any(each[0] != each[2])]
    assert drawn, "its Config has init_scale, but no table is drawn by the key"
    for one, twice, _ in drawn:
        np.testing.assert_allclose(twice, 2 * one, rtol=1e-5)


def test_before_training_words_have_their_base_rates_where_weights_are_zero(case, place):
    """On the training data; a word counts as one that occurs once at least, or once more."""
    program, params, data = setup(case, place)
    if program.metric.name not in ("perplexity", "document perplexity"):
        pytest.skip("it is not validated by the perplexity of words")
    corpus = place.read_by(case.record)
    counts = share = corpus.word_counts()
    if case.record.reads == "documents":  # each of which counts alike
        documents = corpus.train.with_words()
        share = (documents.counts.toarray() / documents.lengths[:, None]).mean(axis=0)
    found = Validation(program, data, None).mean(jax.tree.map(lambda x: jnp.zeros_like(x) if x.ndim > 1 else x, params))
    rates = np.stack([np.maximum(counts, 1), counts + 1]).astype(float)
    expected = -np.log(rates / rates.sum(axis=1, keepdims=True)) @ (share / share.sum())
    assert np.min(np.abs(expected - found)) < 1e-4 < np.min(np.abs(expected - np.log(len(counts))))


def test_training_reports_what_validation_does(case, computed):
    it = computed(case)
    if not validated_alike(it.program):
        pytest.skip("its loss is not what it is validated by")
    close(it.found["metrics"][it.program.metric.name].total, it.found["score"])


def test_streams_carry_in_training_what_they_do_in_validation(case, computed):
    found = computed(case).found
    if "carry of validation" not in found:
        pytest.skip("it carries nothing, or some units are dropped")
    close(found["carry"], found["carry of validation"])


def gradient_of(program, data):
    """Return the gradient of a minibatch's loss: (params, index, weight, keys, shared key, carry) -> grads."""
    config, costs = program.config, program.ragged.costs(data) if program.ragged else None
    size = capacity(costs, np.arange(B), B)

    def gradient(params, index, weight, keys, shared, carry):
        batch = program.batch(data, index, size, config)
        if program.at_step is not None:
            batch = program.at_step(batch, shared, jnp.float32(0.5), config)
        seen = batch if program.sequential is None else Carried(batch, carry)
        return jax.grad(lambda p: program.loss(program.gathered(p, batch), seen, weight, keys, config)[0])(params)

    return gradient


def test_gradient_can_be_taken_in_a_users_own_shard_map(case, place):
    """JAX checks, when it is traced, over which devices each value varies; values: `test_own_loops.py`."""
    program, params, data = setup(case, place)
    carry = streams(program, B) if program.sequential else None
    whole, split = P(), P(sharding.AXES)
    where = whole, split, split, split, whole, jax.tree.map(lambda _: split, carry)
    mapped = jax.shard_map(gradient_of(program, data), mesh=sharding.make(B), in_specs=where, out_specs=whole)
    keys = jax.random.split(jax.random.key(5), B)
    found = jax.eval_shape(mapped, params, np.arange(B, dtype=np.int32), WEIGHT, keys, jax.random.key(6), carry)
    assert jax.tree.map(np.shape, found) == jax.tree.map(np.shape, params)


def test_steps_do_not_depend_on_the_number_of_epochs_unless_scheduled(case, place):
    program, _, data = setup(case, place)
    if program.at_step is None or program.scheduled:
        pytest.skip("its steps need nothing, or are scheduled")
    index, costs = np.arange(B, dtype=np.int32), program.ragged.costs(data) if program.ragged else None
    batch = program.batch(data, index, capacity(costs, index, B), program.config)
    one, other = (program.at_step(batch, jax.random.key(0), jnp.float32(part), program.config) for part in (0, 0.99))
    assert_same(one, other)


@pytest.mark.filterwarnings("ignore:scatter inputs have incompatible types")  # of bfloat16, to which rows are cast
@pytest.mark.parametrize("of_params", ["float64", "float32", pytest.param("bfloat16", marks=pytest.mark.extended)])
def test_gradient_can_be_taken_beside_weights_of_float64(case, place, of_params):
    """Loops and gradients of their own refuse values of two types, when they are traced."""
    of_params = jnp.dtype(of_params)
    with jax.enable_x64(True):
        program, params, data = setup(case, place)
        carry = streams(program, B) if program.sequential else None
        keys = jax.random.split(jax.random.key(5), B)
        params, weight = jax.tree.map(lambda x: x.astype(of_params), params), WEIGHT.astype(np.float64)
        given = params, np.arange(B, dtype=np.int32), weight, keys, jax.random.key(6), carry
        found = jax.eval_shape(gradient_of(program, data), *given)
    assert {x.dtype for x in jax.tree.leaves(found)} == {of_params}
