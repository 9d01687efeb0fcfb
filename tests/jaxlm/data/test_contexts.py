"""Contexts and the words that follow them, and the parts of a text: against loops over the events."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxfit import fit
from jaxfit.bucketing import capacity_step
from jaxfit.errors import UserError
from jaxfit.loop import make_scores
from jaxlm.data import contexts as examples
from jaxlm.models import lbl


@pytest.mark.parametrize("across", [True, False])
def test_contexts(across):
    rng = np.random.default_rng(0)
    eos, c = 2, 4
    ids = rng.integers(0, 5, 300).astype(np.int32)
    text = examples.pad(ids, c, eos)
    index = rng.permutation(300)[:64].astype(np.int32)
    contexts, words = examples.gather_contexts(text, jnp.asarray(index), c, across)
    for i, context, word in zip(index, np.asarray(contexts), np.asarray(words), strict=True):
        history = [eos] * c + ids[:i].tolist()
        if not across:
            line = []
            for w in history:
                line = [] if w == eos else [*line, w]
            history = [eos] * c + line
        assert context.tolist() == history[-c:]
        assert word == ids[i]


def test_texts_of_nearly_one_length_share_a_program():
    config = lbl.Config(num_words=4, num_features=2, context_size=2)
    program, params = lbl.program(config), lbl.init(jax.random.key(0), config, np.ones(4))
    fit.scores(program, params, examples.pad(np.zeros(10, np.int32), 2, 0))
    room = capacity_step(10)
    scores = make_scores(program, room, min(1000, room), 0)
    for events in (5, 11, 100):
        assert fit.scores(program, params, examples.pad(np.zeros(events, np.int32), 2, 0)).shape == (events,)
    assert scores._cache_size() == 1


def test_split_validation():
    ids = np.array([1, 0, 2, 3, 0, 4, 0, 5, 5, 0], np.int32)
    train, valid = examples.split_validation(ids, 0, part=2)
    assert train.tolist() == [1, 0, 2, 3, 0]
    assert valid.tolist() == [4, 0, 5, 5, 0]
    train, valid = examples.split_validation(ids, 0)
    assert valid.tolist() == [5, 5, 0]
    with pytest.raises(UserError, match="too few lines"):
        examples.split_validation(ids[:2], 0)


def test_leave_out():
    """What is left out at each turn makes up the text; parts are of about the same size, cut at line ends."""
    rng = np.random.default_rng(1)
    ids = rng.integers(0, 6, 2000).astype(np.int32)
    ids[-1] = 0
    left = [examples.leave_out(ids, 0, part, 8) for part in range(8)]
    assert sum(len(ids) - len(kept) for kept in left) == len(ids)
    for part, kept in enumerate(left):
        assert abs(len(ids) - len(kept) - 250) < 60
        start = next((i for i, (a, b) in enumerate(zip(ids, kept, strict=False)) if a != b), len(kept))
        out = ids[: len(ids) - len(kept)] if part == 0 else None
        assert out is None or (out[-1] == 0 and (kept == ids[len(out) :]).all())
        assert start <= 250 * part + 60
        assert kept[-1] == 0
    with pytest.raises(UserError, match="too few lines"):
        examples.leave_out(np.array([1, 0], np.int32), 0, 0, 8)
