"""Classes of words: the objective, each exchange and each merge against recomputation; planted classes are found."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from jaxlm.ngram import word_classes
from jaxlm.ngram.brown import Window, brown
from jaxlm.ngram.exchange import Exchange, exchange
from jaxlm.trees.file import check
from jaxlm.trees.paths import paths

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


def test_log_likelihood_is_that_of_the_class_bigram_model():
    counts = word_classes.bigrams(TINY, V)
    for classes in (CLASSES, np.arange(V), np.zeros(V, int)):
        found = word_classes.log_likelihood(counts, classes)
        assert found == pytest.approx(likelihood_word_by_word(TINY, classes), rel=1e-12)


def test_likelihood_and_mutual_information_differ_by_a_constant():
    counts = word_classes.bigrams(TINY, V)
    differences = [
        word_classes.log_likelihood(counts, classes) / len(TINY) - mutual_information(TINY, classes)
        for classes in (CLASSES, np.arange(V), np.zeros(V, int))
    ]
    np.testing.assert_allclose(differences, differences[0], rtol=1e-12)


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
    found = [word_classes.log_likelihood(counts, exchange(counts, 6, 0, passes)) for passes in range(1, 5)]
    assert word_classes.log_likelihood(counts, start) < found[0] < found[1]
    assert np.all(np.diff(found) >= 0)


@pytest.mark.parametrize("num_classes", [2, 3, 5, V])
@pytest.mark.parametrize("alone", [0, 4])
def test_each_merge_is_the_one_that_loses_least_mutual_information(num_classes, alone):
    found = brown(word_classes.bigrams(TINY, V), num_classes, alone)
    order = word_classes.by_frequency(np.bincount(TINY, minlength=V), alone).tolist()
    assert order[0] == alone
    members, rest, waiting = {w: {w} for w in order[:num_classes]}, set(order[num_classes:]), order[num_classes:]
    for t, (a, b) in enumerate(found.pairs.tolist()):
        if t < len(waiting):
            members[waiting[t]] = {waiting[t]}
            rest.remove(waiting[t])
        mergeable = [node for node in members if t >= len(waiting) or node != alone]

        after = {}
        for pair in itertools.combinations(mergeable, 2):
            classes = np.full(V, -1)
            for node, words in members.items():
                classes[list(words)] = pair[0] if node in pair else node
            after[frozenset(pair)] = mutual_information(TINY, classes)
        assert after[frozenset((a, b))] >= max(after.values()) - 1e-12
        members[V + t] = members.pop(a) | members.pop(b)
        if t == V - num_classes - 1:
            assert partition(found.classes) == {frozenset(group) for group in members.values()}
    assert list(members.values()) == [set(range(V))]


def test_the_tree_of_merges_has_each_class_below_one_node():
    ids, _ = planted(3000)
    found = brown(word_classes.bigrams(ids, 41), 6, 0)
    tree = found.tree()
    check(tree)
    word_codes, code_nodes, _, signs = paths(tree)
    assert word_codes.tolist() == list(range(42))
    codes = ["".join("01"[int(s < 0)] for s in signs[i:j]) for i, j in itertools.pairwise(code_nodes)]
    assert sum(0.5 ** len(code) for code in codes) == 1
    for g in range(6):
        words = np.flatnonzero(found.classes == g).tolist()
        shared = codes[words[0]]
        while not all(codes[w].startswith(shared) for w in words):
            shared = shared[:-1]
        assert [w for w in range(41) if codes[w].startswith(shared)] == words


def test_planted_classes_are_recovered():
    ids, classes = planted()
    counts = word_classes.bigrams(ids, len(classes))
    assert partition(exchange(counts, 6, 0, 20)) == partition(classes)
    assert partition(brown(counts, 6, 0).classes) == partition(classes)


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
