"""Modified Kneser-Ney smoothing against a word-by-word implementation of its formulas."""

import collections
import functools
import itertools

import numpy as np
import pytest

from jaxlm.ngram import kneser_ney

VOCAB_SIZE, EOS = 40, 0
BEGIN = VOCAB_SIZE


class KneserNeyByWord:
    """Modified Kneser-Ney computed word by word.

    Chen and Goodman 1998, Eq. 24-27, with continuation counts below the highest order.
    """

    def __init__(self, ids: np.ndarray, vocab_size: int, order: int, cut_offs: tuple[int, ...]):
        self.vocab_size, self.order, self.cut_offs = vocab_size, order, cut_offs
        raw = collections.Counter()
        line = [vocab_size]
        for word in ids.tolist():
            line.append(word)
            for k in range(1, min(order, len(line)) + 1):
                raw[tuple(line[-k:])] += 1
            if word == EOS:
                line = [vocab_size]
        before = collections.defaultdict(set)
        for gram in raw:
            before[gram[1:]].add(gram[0])
        self.a = {
            gram: c if len(gram) == order or gram[0] == vocab_size else len(before[gram]) for gram, c in raw.items()
        }
        self.followers = collections.defaultdict(list)
        for gram in self.a:
            self.followers[gram[:-1]].append(gram[-1])
        self.D = {}
        for k in range(1, order + 1):
            n = collections.Counter(c for gram, c in self.a.items() if len(gram) == k)
            if min(n[1], n[2], n[3], n[4]) == 0:
                self.D[k] = [0, 0.5, 1.0, 1.5]
                continue
            Y = n[1] / (n[1] + 2 * n[2])
            D = [0, 1 - 2 * Y * n[2] / n[1], 2 - 3 * Y * n[3] / n[2], 3 - 4 * Y * n[4] / n[3]]
            self.D[k] = D if min(D[1:]) > 0 else [0, 0.5, 1.0, 1.5]

    def discounted(self, gram: tuple[int, ...]) -> float:
        a = self.a.get(gram, 0)
        k = len(gram)
        if a == 0 or a < self.cut_offs[min(k, len(self.cut_offs)) - 1]:
            return 0.0
        return a - self.D[k][min(a, 3)]

    def total(self, h: tuple[int, ...]) -> int:
        return sum(self.a[(*h, w)] for w in self.followers[h])

    @functools.cache  # noqa: B019
    def interpolated(self, h: tuple[int, ...], w: int) -> float:
        if not self.followers[h]:
            return self.interpolated(h[1:], w)
        lower = self.interpolated(h[1:], w) if h else 1 / self.vocab_size
        taken = sum(self.D[len(h) + 1][min(self.a[(*h, v)], 3)] for v in self.followers[h])
        return (self.discounted((*h, w)) + taken * lower) / self.total(h)

    @functools.cache  # noqa: B019
    def back_off(self, h: tuple[int, ...], w: int) -> float:
        if not h:
            d = [self.discounted((v,)) for v in range(self.vocab_size)]
            p = [x / self.total(()) for x in d]
            without = [v for v in range(self.vocab_size) if p[v] == 0]
            rest = 1 - sum(p)
            return (rest / len(without) if w in without else p[w]) if without else p[w] + rest / len(p)
        if not self.followers[h]:
            return self.back_off(h[1:], w)
        if self.discounted((*h, w)) > 0:
            return self.discounted((*h, w)) / self.total(h)
        own = [v for v in range(self.vocab_size) if self.discounted((*h, v)) > 0]
        free = sum(self.back_off(h[1:], v) for v in range(self.vocab_size) if v not in own)
        left = 1 - sum(self.discounted((*h, v)) for v in own) / self.total(h)
        return left / free * self.back_off(h[1:], w)


def histories(ids: np.ndarray, order: int) -> list[tuple[int, ...]]:
    """Return histories that are seen, partly seen and unseen."""
    seen = [tuple(ids[i : i + order - 1].tolist()) for i in range(20, 400, 37)]
    at_line_start = [(BEGIN, *h[: order - 2]) for h in seen[:6] if order > 1]
    unseen = [(VOCAB_SIZE - 1, *h[1:]) for h in seen[:3]] + [(*h[:-1], VOCAB_SIZE - 1) for h in seen[:3] if h]
    return [h for h in {*seen, *at_line_start, *unseen, ()} if EOS not in h]


@pytest.mark.parametrize(("order", "interpolated"), list(itertools.product([1, 2, 3, 4], [True, False])))
def test_model_equals_kneser_ney_by_word(text, order, interpolated, recwarn):
    model = kneser_ney.train(text, VOCAB_SIZE, EOS, order, interpolated)
    by_word = KneserNeyByWord(text, VOCAB_SIZE, order, (1,) if interpolated else (1, 1, 2))
    formula = by_word.interpolated if interpolated else by_word.back_off
    for h in histories(text, order):
        context = [EOS if w == BEGIN else w for w in h]
        expected = [formula(h, w) for w in range(VOCAB_SIZE)]
        np.testing.assert_allclose(np.exp(model.log_prob(context)), expected, rtol=1e-9, err_msg=str(h))


def test_what_unigrams_leave_is_shared_equally_by_all_words_where_each_occurs(text, recwarn):
    size = VOCAB_SIZE - 1
    by_word = KneserNeyByWord(text, size, 2, (1, 1))
    discounted = [by_word.discounted((w,)) for w in range(size)]
    assert min(discounted) > 0
    assert sum(discounted) < 0.99 * by_word.total(())
    model = kneser_ney.train(text, size, EOS, 2, interpolated=False)
    for h in [(), (20,), (37,)]:
        assert h == () or 0 < len(by_word.followers[h]) < size
        expected = [by_word.back_off(h, w) for w in range(size)]
        np.testing.assert_allclose(np.exp(model.log_prob(h)), expected, rtol=1e-9)


def test_discounts_equal_equation_26():
    counts = np.repeat([0, 1, 2, 3, 4, 5], [9, 40, 15, 8, 5, 30])
    Y = 40 / (40 + 2 * 15)
    np.testing.assert_allclose(
        kneser_ney.discounts(counts),
        [0, 1 - 2 * Y * 15 / 40, 2 - 3 * Y * 8 / 15, 3 - 4 * Y * 5 / 8],
    )


@pytest.mark.parametrize(
    "amounts", [(0, 3, 2, 1), (5, 0, 2, 1), (5, 3, 0, 1), (5, 3, 2, 0), (40, 5, 30, 2), (30, 14, 25, 72)]
)
def test_discounts_are_undefined_where_equation_26_gives_none(amounts):
    assert kneser_ney.discounts(np.repeat([1, 2, 3, 4], amounts)) is None


def test_undefined_discounts_are_half_the_counts_and_at_most_1_5(recwarn):
    model = kneser_ney.train(np.array([1, 1, 1, 2, 2, 3, 0], np.int32), 4, 0, 1)
    np.testing.assert_allclose(np.exp(model.log_prob(())), (np.array([0.5, 1.5, 1, 0.5]) + 3.5 / 4) / 7)


@pytest.mark.parametrize("interpolated", [True, False])
def test_smallest_text_gives_a_model_with_one_warning_at_the_callers_line(interpolated):
    with pytest.warns(UserWarning, match="Kneser-Ney") as caught:
        model = kneser_ney.train(np.array([1, 0], np.int32), 2, 0, 3, interpolated)
    (warning,) = caught
    said = "the numbers of 1-, 2-, 3-grams that occur one to four times give no discounts: 0.5, 1.0, 1.5 are used"
    assert said in str(warning.message)
    assert warning.filename == __file__
    assert np.isfinite(model.event_log_probs(np.array([1, 1, 0, 0, 1, 0], np.int32))).all()
