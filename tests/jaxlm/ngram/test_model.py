"""Queries of n-gram models: normalisation, events and distributions, saving and loading."""

import warnings

import numpy as np
import pytest

from jaxfit.errors import UserError
from jaxlm.ngram import arpa, good_turing, kneser_ney, model, unigram

VOCAB_SIZE, EOS = 40, 0
SMOOTHINGS = {
    "gt": good_turing.train,
    "kn": kneser_ney.train,
    "kn-backoff": lambda *args: kneser_ney.train(*args, interpolated=False),
}


def train(smoothing: str, *args) -> model.NGram:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # on small texts discounts may be undefined
        return SMOOTHINGS[smoothing](*args)


@pytest.mark.parametrize("vocab_size", [VOCAB_SIZE - 1, VOCAB_SIZE], ids=["closed", "open"])
@pytest.mark.parametrize("order", range(1, 10))
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_distributions_sum_to_one(text, smoothing, order, vocab_size):
    lm = train(smoothing, text, vocab_size, EOS, order)
    seen = [text[i : i + order - 1] for i in range(20, 400, 19)]
    at_line_start = [np.append(EOS, text[i : i + 2]) for i in range(30, 100, 7)]
    unseen = [np.arange(i, i + order - 1) % (vocab_size - 2) + 1 for i in range(10)]
    rare = [np.full(order - 1, vocab_size - 1), np.append(text[5:7], vocab_size - 1), [], [EOS]]
    for context in [*seen, *at_line_start, *unseen, *rare]:
        log_prob = lm.log_prob(context)
        assert log_prob.shape == (vocab_size,)
        assert np.all(log_prob > -60), context
        assert abs(np.sum(np.exp(log_prob)) - 1) < 1e-9, context


def test_unigram_model_is_add_one_smoothing(text):
    lm = unigram.train(text, VOCAB_SIZE, EOS)
    np.testing.assert_allclose(np.exp(lm.log_prob([])), (np.bincount(text, minlength=40) + 1) / (4000 + 40))
    assert lm.event_log_probs(text)[17] == lm.log_prob([3, 4])[text[17]]


@pytest.mark.parametrize("order", [1, 2, 3, 6])
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_event_log_probs_equal_distributions_given_the_line_so_far(text, smoothing, order):
    lm = train(smoothing, text[:3000], VOCAB_SIZE, EOS, order)
    test = text[2600:3400]  # partly seen in training
    start = [EOS]
    expected = [lm.log_prob([*start, *test[:i]])[word] for i, word in enumerate(test)]
    np.testing.assert_allclose(lm.event_log_probs(test), expected, rtol=1e-12)


def test_scores_of_lines_do_not_depend_on_their_position(text):
    lm = train("kn", text, VOCAB_SIZE, EOS, 4)
    ends = np.flatnonzero(text == EOS)
    cut = ends[len(ends) // 2] + 1
    apart = np.concatenate([lm.event_log_probs(text[:cut]), lm.event_log_probs(text[cut:])])
    np.testing.assert_array_equal(lm.event_log_probs(text), apart)
    assert len(lm.event_log_probs(text[:0])) == 0


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_distributions_sum_to_one_when_every_word_follows_every_history(smoothing):
    ids = np.array([1, 2, 1, 1, 2, 2, 0, 1, 0, 2, 0, 0, 0, 2, 1, 0] * 9, np.int32)
    lm = train(smoothing, ids, 3, 0, 2)
    for word in range(3):
        assert abs(np.sum(np.exp(lm.log_prob([word]))) - 1) < 1e-12


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_large_vocabularies_give_consistent_scores(text, smoothing):
    spread = np.where(text == EOS, EOS, 99_999 - text).astype(np.int32)  # keys beyond 32 bits
    large = train(smoothing, spread, 100_000, EOS, 3)
    scores = large.event_log_probs(spread[:200])
    distributions = [large.log_prob([EOS, *spread[:i]]) for i in range(200)]
    np.testing.assert_allclose([d[w] for d, w in zip(distributions, spread, strict=False)], scores, rtol=1e-12)
    np.testing.assert_allclose([np.sum(np.exp(d)) for d in distributions], 1, rtol=1e-9)


def test_words_outside_the_vocabulary_are_refused(text):
    lm = train("kn", text, VOCAB_SIZE, EOS, 2)
    with pytest.raises(ValueError, match=r"0\.\.39"):
        lm.event_log_probs(np.array([3, 40]))
    with pytest.raises(ValueError, match=r"0\.\.39"):
        lm.log_prob([-1])


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_loaded_model_equals_saved_model(text, smoothing, tmp_path):
    lm = train(smoothing, text, VOCAB_SIZE, EOS, 3)
    model.save(lm, tmp_path / "new")
    again = model.load(tmp_path / "new", VOCAB_SIZE, EOS, model.OrderConfig(3))
    assert (again.vocab_size, again.eos, again.order) == (VOCAB_SIZE, EOS, 3)
    np.testing.assert_array_equal(again.event_log_probs(text), lm.event_log_probs(text))
    assert [f.name for f in (tmp_path / "new").iterdir()] == [model.FILE]


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_loaded_model_equals_saved_model_without_n_grams_of_an_order(smoothing, tmp_path):
    ids = np.array([1, 0, 2, 0, 1, 0, 3, 0], np.int32)
    lm = train(smoothing, ids, 4, EOS, 5)
    assert [len(table.keys) for table in lm.tables[3:]] == [0, 0]
    model.save(lm, tmp_path)
    arpa.write(lm, ["<eos>", "one", "two", "three"], tmp_path / "lm.arpa")
    for again in (model.load(tmp_path, 4, EOS, model.OrderConfig(5)), arpa.read(tmp_path / "lm.arpa")[0]):
        np.testing.assert_allclose(again.event_log_probs(ids), lm.event_log_probs(ids), rtol=1e-6)


def test_missing_and_damaged_files_are_refused(text, tmp_path):
    with pytest.raises(UserError, match="no n-gram model"):
        model.load(tmp_path, VOCAB_SIZE, EOS, model.OrderConfig(2))
    model.save(train("kn", text, VOCAB_SIZE, EOS, 2), tmp_path)
    whole = (tmp_path / model.FILE).read_bytes()
    for damaged in [whole[: len(whole) // 2], b"", b"text", whole[:2000] + b"!!!" + whole[2003:]]:
        (tmp_path / model.FILE).write_bytes(damaged)
        with pytest.raises(UserError, match="damaged"):
            model.load(tmp_path, VOCAB_SIZE, EOS, model.OrderConfig(2))
    np.savez(tmp_path / model.FILE, format=np.array(99))
    with pytest.raises(UserError, match="format 99"):
        model.load(tmp_path, VOCAB_SIZE, EOS, model.OrderConfig(2))


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        ("eos", lambda eos: np.array([1, 2]), "0-dimensional"),
        ("eos", lambda eos: eos + 1000, "numbers of words differ"),
        ("eos", lambda eos: eos + 1, "sum to|line end"),
        ("order", lambda order: order * 0, "numbers of words differ"),
        ("keys_1", lambda keys: keys[:-1], "1-grams are of different lengths"),
        ("keys_2", lambda keys: keys.astype(np.int32), "2-grams are of different lengths, or of other types"),
        ("keys_2", lambda keys: keys[::-1], "2-grams are not in order"),
        ("keys_2", lambda keys: keys + 10**9, "2-grams are not in order"),
        ("keys_2", lambda keys: keys - 1, "probabilities of the next word sum to"),
        ("log_prob_1", lambda values: values + 0.01, "probabilities of the next word sum to 1.0"),
        ("log_prob_1", lambda values: values + 1e308, "probabilities of the next word sum to inf"),
        ("log_backoff_1", lambda values: values - 0.1, "probabilities of the next word sum to 0.9"),
        ("log_prob_2", lambda values: np.array(0.5), "2-grams are of different lengths"),
        ("log_backoff_1", lambda values: values * np.nan, "1-grams have values that are not numbers"),
    ],
)
def test_arrays_that_are_no_model_are_refused(text, tmp_path, name, change, problem):
    model.save(train("kn", text, VOCAB_SIZE, EOS, 2), tmp_path)
    with np.load(tmp_path / model.FILE) as file:
        arrays = dict(file)
    np.savez(tmp_path / model.FILE, **{**arrays, name: change(arrays[name])})
    with pytest.raises(UserError, match=f"a damaged n-gram model: .*{problem}"):
        model.load(tmp_path, VOCAB_SIZE, EOS, model.OrderConfig(2))


def test_words_of_n_grams_match_their_log_probs(text):
    lm = train("kn", text, VOCAB_SIZE, EOS, 3)
    grams = arpa.words_of(lm, 3, slice(None))
    for gram, log_prob in zip(grams[::50].tolist(), lm.tables[2].log_prob[::50], strict=True):
        context = [EOS if w == VOCAB_SIZE else w for w in gram[:2]]
        np.testing.assert_allclose(lm.log_prob(context)[gram[2]], log_prob)
