"""GloVe against its formula, on counts made by a loop, and on a text whose words are in clusters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxfit import tables
from jaxfit.errors import UserError
from jaxfit.files import large_arrays
from jaxfit.run_dir.run import Run
from jaxlm.capabilities import Embeds
from jaxlm.data import cooccurrence
from jaxlm.data.corpus import Corpus
from jaxlm.data.vocabulary import Vocabulary
from jaxlm.models import glove
from jaxlm.tasks.neighbours import nearest
from jaxlm.training import train

N_W, D, EOS, WINDOW = 7, 4, 0, 3
CONFIG = glove.Config(num_words=N_W, num_features=D, window=WINDOW, x_max=5.0)
TEXT = np.random.default_rng(0).integers(0, N_W, 200).astype(np.int32)


def counts_by_loop(ids):
    counts = np.zeros((N_W, N_W))
    for p in range(len(ids)):
        for q in range(p + 1, min(p + WINDOW, len(ids) - 1) + 1):
            if EOS not in ids[p:q]:
                counts[ids[p], ids[q]] += 1 / (q - p)
                counts[ids[q], ids[p]] += 1 / (q - p)
    return counts


def random_params(seed=0):
    rng = np.random.default_rng(seed)
    shapes = (N_W, D), (N_W, D), (N_W,), (N_W,)
    return glove.Params(*(jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in shapes))


def numpy_loss(params, counts, ratio=1.0):
    """Eq. 8 pair by pair, over the non-zero counts; ratio: what counts are multiplied by in the logarithm."""
    W, C, b, c = (np.asarray(x, np.float64) for x in params)
    total = 0.0
    for i, j in zip(*np.nonzero(counts), strict=True):
        f = (counts[i, j] / 5.0) ** 0.75 if counts[i, j] < 5.0 else 1.0
        total += f * (sum(W[i] * C[j]) + b[i] + c[j] - np.log(ratio * counts[i, j])) ** 2
    return total


def batch_of(ids, config=CONFIG):
    data = glove.pairs(ids, EOS, config)
    return glove.gather(data, np.arange(len(data)), 0, config)


def test_loss_of_a_text_is_the_formula_on_its_counts():
    params, batch, counts = random_params(), batch_of(TEXT), counts_by_loop(TEXT)
    assert len(batch.f) == np.count_nonzero(counts)
    assert 0 < np.count_nonzero(np.asarray(batch.f) < 1) < len(batch.f)  # on both sides of x_max
    expected = numpy_loss(params, counts)
    weight = np.ones(len(batch.f), np.float32)
    total, metrics = glove.batch_loss(
        tables.gathered(params, glove.touched(batch, CONFIG)), batch, weight, None, CONFIG
    )
    np.testing.assert_allclose(total, expected, rtol=1e-5)
    np.testing.assert_allclose(metrics["weighted squared error"].total, expected, rtol=1e-5)
    np.testing.assert_allclose(np.sum(glove.score(params, batch, CONFIG)), expected, rtol=1e-5)


def test_pairs_in_files_are_those_in_memory(tmp_path, monkeypatch):
    """In pieces, whose order is random."""
    monkeypatch.setattr(large_arrays, "PIECE", 5)
    monkeypatch.setattr(cooccurrence, "PIECE", 5)
    in_memory = glove.pairs(TEXT, EOS, CONFIG)
    with large_arrays.stored_in(tmp_path, 0):
        in_files = glove.pairs(TEXT, EOS, CONFIG)
    np.testing.assert_array_equal(in_files, in_memory)
    assert np.any(np.diff(in_memory[:, 0]) < 0)


def test_validation_counts_are_scaled_to_the_length_of_the_training_text():
    config = CONFIG.given_counts(np.bincount(TEXT, minlength=N_W))
    part, params = TEXT[:50], random_params()
    found = np.sum(glove.score(params, batch_of(part, config), config))
    np.testing.assert_allclose(found, numpy_loss(params, counts_by_loop(part), ratio=4.0), rtol=1e-5)
    np.testing.assert_array_equal(batch_of(TEXT, config).log, batch_of(TEXT).log)


def test_words_that_do_not_occur_have_zero_vectors():
    params = glove.init(jax.random.key(0), CONFIG, np.array([3, 0, 1, 1, 1, 1, 0]))
    lengths = np.linalg.norm(params.W + params.C, axis=1)
    assert np.array_equal(lengths == 0, [False, True, False, False, False, False, True])


def test_the_vectors_of_words_are_the_sums_of_both_sets():
    params = random_params()
    found = glove.MODEL.capability(Embeds).vectors(params)
    np.testing.assert_array_equal(found, np.asarray(params.W) + np.asarray(params.C))  # §4.2


def test_a_text_without_pairs_is_an_error():
    with pytest.raises(UserError, match="no two words near one another"):
        glove.pairs(np.full(5, EOS, np.int32), EOS, CONFIG)


def clusters(lines, seed):
    """Draw a text of three clusters of eight words: a line draws from one cluster, and from four words of all lines."""
    rng = np.random.default_rng(seed)
    drawn = np.where(
        rng.random((lines, 8)) < 0.4, rng.integers(1, 5, (lines, 8)),
        5 + 8 * rng.integers(0, 3, lines)[:, None] + rng.integers(0, 8, (lines, 8)),
    )  # fmt: skip
    return np.concatenate([drawn, np.zeros((lines, 1))], axis=1).astype(np.int32).reshape(-1)


def test_words_of_the_same_contexts_become_neighbours(tmp_path):
    vocabulary = Vocabulary(("<eos>", *(f"w{i}" for i in range(1, 29))))
    corpus = Corpus("clusters", clusters(1500, 0), clusters(300, 1), np.zeros(0, np.int32), vocabulary, "", "")
    recipe, _ = glove.MODEL.recipe("tuned")
    config = {"num_features": 10, "x_max": 10.0}
    model = train("glove", corpus, tmp_path, config=config, recipe=recipe, run=Run()).model
    vectors = model.vectors()
    for word in range(5, 29):
        ids, _ = nearest(vectors, word, 7)
        assert set((ids - 5) // 8) == {(word - 5) // 8}, word
