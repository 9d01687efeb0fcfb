"""Contexts and the words that follow them, and texts without one fold, checked by loops over the events."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxfit import fit
from jaxfit.errors import UserError
from jaxfit.minibatches.bucketing import capacity_step
from jaxfit.scoring import make_scores
from jaxlm import models
from jaxlm.context_model import context_program
from jaxlm.data.contexts import NO_WORD, gather_contexts, leave_out, text_of, vectors_of, without_history
from jaxlm.data.corpus import Corpus
from jaxlm.data.vocabulary import Vocabulary
from jaxlm.models import lbl
from jaxlm.training import train


@pytest.mark.parametrize("across", [True, False])
@pytest.mark.parametrize("alone", [True, False])
def test_contexts_equal_a_loop(across, alone):
    rng = np.random.default_rng(0)
    eos, c = 2, 4
    ids = rng.integers(0, 5, 300).astype(np.int32)
    text = without_history(text_of(ids, eos)) if alone else text_of(ids, eos)
    index = rng.permutation(300)[:64].astype(np.int32)
    contexts, words = gather_contexts(text, jnp.asarray(index), c, across)
    for i, context, word in zip(index, np.asarray(contexts), np.asarray(words), strict=True):
        history = [NO_WORD if alone else eos] * c + [eos] + ids[:i].tolist()
        if not across:
            line = []
            for w in history:
                line = [] if w in (eos, NO_WORD) else [*line, w]
            history = [NO_WORD if alone else eos] * c + [eos] + line
        assert context.tolist() == history[-c:]
        assert word == ids[i]


def test_where_there_is_no_word_the_vector_is_zeros():
    R = np.arange(1, 7, dtype=np.float32).reshape(3, 2)
    found = vectors_of(jnp.asarray(R), jnp.array([[NO_WORD, 2], [3, 0]]))
    np.testing.assert_array_equal(found, [[[0, 0], [5, 6]], [[0, 0], [1, 2]]])


def test_texts_of_similar_length_share_a_compiled_program():
    config = lbl.Config(num_words=4, num_features=2, context_size=2)
    program, params = lbl.program(config), lbl.init(jax.random.key(0), config, np.ones(4))
    fit.scores(program, params, text_of(np.zeros(10, np.int32), 0))
    capacity = capacity_step(10)
    scores = make_scores(program, capacity, min(1000, capacity), 0)
    for events in (5, 11, 100):
        assert fit.scores(program, params, text_of(np.zeros(events, np.int32), 0)).shape == (events,)
    assert scores._cache_size() == 1


@pytest.fixture
def mapped(tmp_path):
    """Write a text to a file, and map it."""
    ids = np.random.default_rng(0).integers(0, 7, 1001).astype(np.int32)
    ids.tofile(tmp_path / "ids")
    return np.memmap(tmp_path / "ids", np.int32, "r+")


def test_a_cpu_reads_a_memory_mapped_text_where_it_is(mapped):
    assert text_of(mapped, 0).words.unsafe_buffer_pointer() == mapped.ctypes.data


@pytest.mark.parametrize("name", ["lbl", *(pytest.param(name, marks=pytest.mark.extended) for name in ("hlbl", "rnn"))])
def test_models_are_trained_on_a_memory_mapped_text_as_in_memory(name, mapped, tmp_path):
    vocabulary = Vocabulary.from_words([f"w{i}" for i in range(6)], {})
    small = {"num_features": 3} if name != "rnn" else {"num_features": 3, "num_hidden": 3, "window": 4}
    trained = []
    for ids in (np.array(mapped), mapped):
        corpus = Corpus("counting", ids, ids[:100], ids[:0], vocabulary, "none", "a toy")
        recipe = dataclasses.replace(models.get(name).recipes["tuned"][0], batch_size=8, epochs=2)
        trained.append(train(name, corpus, tmp_path / str(len(trained)), recipe=recipe, config=small).model.params)
    for one, other in zip(*map(jax.tree.leaves, trained), strict=True):
        np.testing.assert_array_equal(one, other)


def test_folds_are_nearly_equal_and_cut_at_line_ends():
    rng = np.random.default_rng(1)
    ids = rng.integers(0, 6, 2000).astype(np.int32)
    ids[-1] = 0
    remaining = [leave_out(ids, 0, fold, 8) for fold in range(8)]
    assert sum(len(ids) - len(rest) for rest in remaining) == len(ids)
    for fold, rest in enumerate(remaining):
        assert abs(len(ids) - len(rest) - 250) < 60
        start = next((i for i, (a, b) in enumerate(zip(ids, rest, strict=False)) if a != b), len(rest))
        out = ids[: len(ids) - len(rest)] if fold == 0 else None
        assert out is None or (out[-1] == 0 and (rest == ids[len(out) :]).all())
        assert start <= 250 * fold + 60
        assert rest[-1] == 0
    with pytest.raises(UserError, match="too few lines"):
        leave_out(np.array([1, 0], np.int32), 0, 0, 8)


@pytest.mark.parametrize("missing", ["context_size", "across_lines"])
def test_a_config_without_the_fields_of_contexts_is_refused(missing):
    fields = {"context_size", "across_lines"} - {missing}
    config = dataclasses.make_dataclass("Config", [(name, int, 1) for name in fields], frozen=True)()
    with pytest.raises(TypeError, match=f"contexts are gathered by {missing}: add the field to Config"):
        context_program(config, lbl.batch_loss, lbl.score)
