"""Classes of words: the objective, each exchange and each merge against recomputation; planted classes are found."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from jaxlm.ngram import word_classes
from jaxlm.ngram.brown import Window, brown
from jaxlm.ngram.exchange import Exchange, exchange

V = 9
TINY = np.random.default_rng(3).choice(V, 150, p=np.arange(V, 0, -1) / 45).astype(np.int32)
CLASSES = np.array([0, 1, 1, 2, 3, 3, 3, 2, 1])


def likelihood_word_by_word(ids, classes):
    """Compute Σ log P(w | class(w)) P(class(w) | class of the word before), the first word being after the last."""
    words, c = ids.tolist(), [int(classes[w]) for w in ids]
    before = [c[-1], *c[:-1]]
    frequency, size, pairs = Counter(words), Counter(c), Counter(zip(before, c, strict=True))
    of_words = sum(math.log(frequency[w] / size[g]) for w, g in zip(words, c, strict=True))
    return of_words + sum(math.log(pairs[g, h] / size[g]) for g, h in zip(before, c, strict=True))


def mutual_information(ids, classes):
    """Compute the average mutual information of neighbouring classes (Brown et al. 1992, §3)."""
    c = [int(classes[w]) for w in ids]
    n, size, pairs = len(c), Counter(c), Counter(zip([c[-1], *c[:-1]], c, strict=True))
    return sum(k / n * math.log(k * n / (size[g] * size[h])) for (g, h), k in pairs.items())


def planted(num_events=20_000, num_classes=5, words_each=8, seed=0):
    """Draw a text from a class bigram model; the line end, word 0, is a class of its own."""
    rng = np.random.default_rng(seed)
    after = rng.dirichlet(np.full(num_classes + 1, 0.3), num_classes + 1) * 0.9 + 0.1 / (num_classes + 1)
    within = rng.dirichlet(np.full(words_each, 3.0), num_classes)
    c, ids = 0, np.zeros(num_events, np.int32)
    for i in range(num_events - 1):
        c = rng.choice(num_classes + 1, p=after[c])
        ids[i] = 0 if c == 0 else 1 + words_each * (c - 1) + rng.choice(words_each, p=within[c - 1])
    return ids, np.append(0, 1 + np.repeat(np.arange(num_classes), words_each))


def partition(classes):
    return {frozenset(np.flatnonzero(classes == g).tolist()) for g in np.unique(classes)}


def test_bigrams_are_pairs_of_neighbours_of_the_text_as_a_circle():
    found = word_classes.bigrams(np.array([1, 2, 2, 1, 2, 0], np.int32), 4).toarray()
    assert {pair: n for pair, n in np.ndenumerate(found) if n} == {
        (0, 1): 1,
        (1, 2): 2,
        (2, 2): 1,
        (2, 1): 1,
        (2, 0): 1,
    }


def test_each_gain_equals_the_difference_of_recomputed_likelihoods():
    counts, num_classes = word_classes.bigrams(TINY, V), 5  # the last one is empty
    state = Exchange(counts, CLASSES.copy(), num_classes)
    for word in range(V):
        own, gains = state.take_out(word), state.gains()
        recomputed = [
            likelihood_word_by_word(TINY, np.where(np.arange(V) == word, g, state.classes)) for g in range(num_classes)
        ]
        np.testing.assert_allclose(gains - gains[own], np.array(recomputed) - recomputed[own], atol=1e-9)
        state.put_in(word, (word + 2) % num_classes)  # so that the next word finds other classes


def test_exchange_ends_where_no_word_can_move():
    classes = exchange(word_classes.bigrams(TINY, V), 4, alone=0, passes=100)
    reached = likelihood_word_by_word(TINY, classes)
    assert set(classes) == {0, 1, 2, 3}
    assert np.flatnonzero(classes == classes[0]).tolist() == [0]
    for word, g in itertools.product(range(1, V), range(1, 4)):
        moved = np.where(np.arange(V) == word, g, classes)
        assert likelihood_word_by_word(TINY, moved) <= reached + 1e-6


def test_each_pass_raises_the_likelihood_from_that_of_words_in_turn():
    ids, _ = planted(3000)
    counts = word_classes.bigrams(ids, 41)
    start = np.empty(41, int)
    start[word_classes.by_frequency(np.bincount(ids), 0)] = [0, *[1, 2, 3, 4, 5] * 8]
    found = [likelihood_word_by_word(ids, exchange(counts, 6, 0, passes)) for passes in range(1, 5)]
    assert likelihood_word_by_word(ids, start) < found[0] < found[1]
    assert np.all(np.diff(found) >= -1e-6)


@pytest.mark.parametrize("num_classes", [2, 3, 5, V])
@pytest.mark.parametrize("alone", [0, 4])
def test_each_merge_is_the_one_that_loses_least_mutual_information(num_classes, alone):
    counts = word_classes.bigrams(TINY, V)
    order = word_classes.by_frequency(np.bincount(TINY, minlength=V), alone).tolist()
    assert order[0] == alone
    window = Window(counts, num_classes, alone)
    for number, word in enumerate(order[num_classes:], num_classes + 1):
        window.add(word)
        # classes of the words so far; those to come are one more
        classes = window.slots.copy()
        so_far = {frozenset(np.flatnonzero(classes == g).tolist()) for g in classes[order[:number]]}
        assert {w for group in so_far for w in group} == set(order[:number])
        after = {}
        for a, b in itertools.combinations([g for g in so_far if alone not in g], 2):
            merged = np.where(np.isin(np.arange(V), list(b)), classes[min(a)], classes)
            after[frozenset((so_far - {a, b}) | {a | b})] = mutual_information(TINY, merged)
        window.merge()
        now = frozenset(frozenset(np.flatnonzero(window.slots == g).tolist()) for g in window.slots[order[:number]])
        assert after[now] >= max(after.values()) - 1e-12
    assert partition(brown(counts, num_classes, alone)) == partition(window.slots)
    assert set(brown(counts, num_classes, alone)) == set(range(num_classes))


def test_planted_classes_are_recovered():
    ids, classes = planted()
    counts = word_classes.bigrams(ids, len(classes))
    assert partition(exchange(counts, 6, 0, 20)) == partition(classes)
    assert partition(brown(counts, 6, 0)) == partition(classes)


def test_losses_are_kept_up_to_date_over_many_merges():
    """By rounding alone they differ from those that are computed anew."""
    ids = np.random.default_rng(1).zipf(1.3, 6000)
    ids = np.where(ids < 400, ids, 0).astype(np.int32)
    window = Window(word_classes.bigrams(ids, 400), 30, 0)
    for word in window.words[30:230].tolist():
        window.add(word)
        window.merge()
    kept = window.loss.copy()
    for slot in np.flatnonzero(window.mergeable).tolist():
        window.renew(slot)
    np.testing.assert_allclose(kept, window.loss, rtol=0, atol=1e-8)
