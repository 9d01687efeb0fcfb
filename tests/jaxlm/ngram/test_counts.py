"""Counts of n-grams against loops over tuples of words."""

import collections

import numpy as np
import pytest

from jaxfit.errors import UserError
from jaxlm.ngram import counts, good_turing, kneser_ney, unigram

VOCAB_SIZE, EOS = 40, 0


def brute_force(ids: np.ndarray, order: int) -> list[collections.Counter]:
    """Count k-grams as tuples, line by line, with VOCAB_SIZE for <s>."""
    result = [collections.Counter() for _ in range(order)]
    line = [VOCAB_SIZE]
    for word in ids.tolist():
        line.append(word)
        for k in range(1, order + 1):
            if len(line) >= k:
                result[k - 1][tuple(line[-k:])] += 1
        if word == EOS:
            line = [VOCAB_SIZE]
    return result


def as_tuples(tables: list[counts.Grams]) -> list[list[tuple[int, ...]]]:
    grams = [[(int(word),) for word in tables[0].word]]
    for table in tables[1:]:
        grams.append([(*grams[-1][p], int(w)) for p, w in zip(table.prefix, table.word, strict=True)])
    return grams


@pytest.mark.parametrize("order", [1, 2, 3, 5, 9])
def test_counts_equal_a_loop_over_words(text, order):
    tables = counts.count(text, VOCAB_SIZE, EOS, order)
    for k, (grams, table, expected) in enumerate(
        zip(as_tuples(tables), tables, brute_force(text, order), strict=True), start=1
    ):
        assert dict(zip(grams, table.counts.tolist(), strict=True)) == {
            **({(w,): 0 for w in range(VOCAB_SIZE + 1)} if k == 1 else {}),
            **expected,
        }
        assert grams == sorted(grams)
        assert np.all(np.diff(table.keys) > 0)
        if k > 1:
            shorter = as_tuples(tables)[k - 2]
            assert [shorter[s] for s in table.suffix] == [gram[1:] for gram in grams]


def test_continuation_counts_equal_sets_of_predecessors(text):
    order = 4
    tables = counts.count(text, VOCAB_SIZE, EOS, order)
    raw = brute_force(text, order)
    adjusted = counts.continuation_counts(tables, VOCAB_SIZE)
    for k, grams in enumerate(as_tuples(tables), start=1):
        for gram, value in zip(grams, adjusted[k - 1].tolist(), strict=True):
            if k == order or gram[0] == VOCAB_SIZE:
                expected = raw[k - 1][gram]
            else:
                expected = len({longer[0] for longer in raw[k] if longer[1:] == gram})
            assert value == expected, gram


def test_counts_of_counts_equal_a_count_by_hand():
    assert counts.counts_of_counts(np.array([0, 1, 1, 3, 7, 9]), 4).tolist() == [1, 2, 0, 1, 0]


def test_last_line_may_lack_its_end():
    tables = counts.count(np.array([1, 2], np.int32), 3, EOS, 2)
    assert dict(zip(as_tuples(tables)[1], tables[1].counts.tolist(), strict=True)) == {(1, 2): 1, (3, 1): 1}


@pytest.mark.parametrize("order", [0, -1, 10])
@pytest.mark.parametrize("train", [good_turing.train, kneser_ney.train])
def test_orders_outside_1_to_9_are_refused(text, train, order):
    with pytest.raises(UserError, match=rf"invalid n-gram order {order} \(--order\) - choose an order from 1 to 9"):
        train(text, VOCAB_SIZE, EOS, order)


@pytest.mark.parametrize(
    "train",
    [unigram.train, lambda *a: good_turing.train(*a, order=2), lambda *a: kneser_ney.train(*a, order=2)],
)
def test_texts_with_too_few_words_are_refused(train):
    with pytest.raises(UserError, match="no words"):
        train(np.zeros(0, np.int32), 5, EOS)
    with pytest.raises(UserError, match="nothing to predict"):
        train(np.zeros(7, np.int32), 1, EOS)
    with pytest.raises(ValueError, match=r"ids must lie in 0\.\.4"):
        train(np.array([1, 5, 0], np.int32), 5, EOS)
