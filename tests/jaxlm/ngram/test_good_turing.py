"""Good-Turing smoothing against a word-by-word implementation and SRILM."""

import collections

import numpy as np
import pytest

from jaxlm.ngram import good_turing

VOCAB_SIZE, EOS = 40, 0


class KatzByWord:
    """Katz back-off computed word by word, normalised by a sum over the words that are backed off to."""

    def __init__(self, ids: np.ndarray, order: int):
        self.c = collections.Counter()
        line = [VOCAB_SIZE]
        for word in ids.tolist():
            line.append(word)
            for k in range(1, min(order, len(line)) + 1):
                self.c[tuple(line[-k:])] += 1
            if word == EOS:
                line = [VOCAB_SIZE]
        self.d = {}
        for k in range(2, order + 1):
            n = collections.Counter(c for gram, c in self.c.items() if len(gram) == k)
            A = 8 * n[8] / n[1]
            self.d[k] = {}
            for r in range(1, 8):
                ratio = (r + 1) * n[r + 1] / (r * n[r])
                d = (ratio - A) / (1 - A)
                self.d[k][r] = d if d > 3e-6 and ratio <= 1 else 1.0

    def discounted(self, gram: tuple[int, ...]) -> float:
        r = self.c[gram]
        if r < (2 if len(gram) > 2 else 1):
            return 0.0
        return r if len(gram) == 1 else r * self.d[len(gram)].get(r, 1.0)

    def prob(self, h: tuple[int, ...]) -> np.ndarray:
        """P(. | h) over all words."""
        words = range(VOCAB_SIZE)
        d = np.array([self.discounted((*h, w)) for w in words])
        total = sum(self.c[(*h, w)] for w in words)
        if total == 0:
            return self.prob(h[1:])
        if d.sum() > total * (1 - 3e-6):
            total += 1
        own = d > 0
        if not h:
            return np.where(own, d / total, (1 - d.sum() / total) / max(1, np.sum(~own)))
        lower = self.prob(h[1:])
        return np.where(own, d / total, (1 - d.sum() / total) * lower / lower[~own].sum())


@pytest.fixture(scope="module")
def long_text() -> np.ndarray:
    """Draw a text with n-grams seen 1 to 8 times at each order, so that the discounts are defined."""
    import jax

    words = jax.random.categorical(jax.random.key(3), -1.3 * np.log(np.arange(1, VOCAB_SIZE)), shape=(30_000,))
    return np.append(np.asarray(words, np.int32), np.int32(EOS))


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_model_equals_katz_by_word(long_text, order, recwarn):
    model = good_turing.train(long_text, VOCAB_SIZE, EOS, order)
    expected = KatzByWord(long_text, order)
    seen = [tuple(long_text[i : i + order - 1].tolist()) for i in range(20, 900, 37)]
    at_line_start = [(VOCAB_SIZE, *h[: order - 2]) for h in seen[:6] if order > 1]
    unseen = [(*h[:-1], VOCAB_SIZE - 1) for h in seen[:3] if h]
    for h in {*seen, *at_line_start, *unseen, ()}:
        if EOS not in h:
            context = [EOS if w == VOCAB_SIZE else w for w in h]
            np.testing.assert_allclose(np.exp(model.log_prob(context)), expected.prob(h), rtol=1e-9)


def test_model_equals_srilms_on_three_sentences():
    """SRILM 1.7.2's `ngram-count -order 2` and `ngram -ppl -debug 2`; the discounts of 1 and 2 are out of range."""
    # <eos>, then the words: tôi đi học / tôi rất vui / tôi đi chơi
    eos, toi, di, hoc, rat, vui, choi = range(7)
    ids = np.array([toi, di, hoc, eos, toi, rat, vui, eos, toi, di, choi, eos], np.int32)
    with pytest.warns(UserWarning, match="Good-Turing") as warned:
        model = good_turing.train(ids, 7, eos, 2)
    assert [str(w.message) for w in warned] == [
        "Good-Turing: none of the 2-grams occurs 4 times: counts up to 2 are discounted",
        "Good-Turing: the discount of 2-grams that occur 1, 2 times is undefined: these are not discounted",
    ]
    test = np.array([hoc, rat, vui, eos, toi, choi, rat, vui, eos], np.int32)
    srilm = [0.02777779, 0.05555559, 0.5, 0.5, 0.7500001, 0.0277778, 0.05555559, 0.5, 0.5]
    np.testing.assert_allclose(np.exp(model.event_log_probs(test)), srilm, rtol=1e-6)
    np.testing.assert_allclose(np.exp(model.log_prob([])[choi]), 0.08333339, rtol=1e-6)


def test_discounts_equal_katz():
    n = {1: 100, 2: 40, 3: 22, 4: 14, 5: 10, 6: 8, 7: 6, 8: 5}
    counts = np.repeat(list(n), list(n.values()))
    A = 8 * 5 / 100
    d = good_turing.discounts(counts, "2-grams")
    assert d.shape == (8,)
    # r = 7: 8 * 5 / (7 * 6) = 0.952
    for r in range(1, 8):
        np.testing.assert_allclose(d[r], ((r + 1) * n[r + 1] / (r * n[r]) - A) / (1 - A))
    # Katz's condition: the discounted mass is what Good-Turing gives to unseen n-grams.
    np.testing.assert_allclose(sum(n[r] * (1 - d[r]) * r for r in range(1, 8)), n[1])


@pytest.mark.parametrize(
    ("n", "expected", "message"),
    [
        ({2: 5, 3: 4}, [1], "none of the 2-grams occurs exactly once: they are not discounted"),
        ({1: 5}, [1], "none of the 2-grams occurs exactly twice: they are not discounted"),
        (
            {1: 100, 2: 40, 3: 22},
            [1, 0.14 / 0.34, 0.165 / 0.34],
            "occurs 4 times: counts up to 2 are discounted",
        ),
        ({1: 100, 2: 40, 3: 80, 4: 5}, [1, 0.6 / 0.8, 1, 1], "2-grams that occur 2, 3 times is undefined"),
        (
            {1: 10, 2: 9, 4: 1, 8: 1},
            None,
            "the discount of 2-grams that occur 1, 2, 3, 4, 5, 6, 7 times is undefined",
        ),
    ],
)
def test_undefined_discounts_fall_back_with_a_warning(n, expected, message):
    counts = np.repeat(list(n), list(n.values()))
    with pytest.warns(UserWarning, match="Good-Turing") as warned:
        d = good_turing.discounts(counts, "2-grams")
    assert any(message in str(w.message) for w in warned), [str(w.message) for w in warned]
    if expected is not None:
        np.testing.assert_allclose(d, expected)


@pytest.mark.filterwarnings("ignore:Good-Turing")
def test_distributions_of_short_texts_sum_to_one():
    rng = np.random.default_rng(0)
    for events in range(10, 60):
        model = good_turing.train(np.append(rng.integers(0, 3, events), 0).astype(np.int32), 3, 0, 3)
        for context in ([], [0], [1], [0, 1], [1, 2], [2, 2]):
            np.testing.assert_allclose(np.sum(np.exp(model.log_prob(context))), 1, rtol=1e-9)


def test_smallest_text_gives_a_model_with_a_warning():
    with pytest.warns(UserWarning, match="Good-Turing"):
        model = good_turing.train(np.array([1, 0], np.int32), 3, 0, 3)
    assert np.isfinite(model.event_log_probs(np.array([1, 1, 0, 0, 2, 0], np.int32))).all()
