"""The class-based n-gram model: its two factors, words that training lacks, its file."""

import shutil
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from jaxfit.errors import UserError
from jaxlm.capabilities import PredictsWords
from jaxlm.ngram import class_ngram, kneser_ney
from jaxlm.ngram.brown import brown
from jaxlm.ngram.class_ngram import Config
from jaxlm.ngram.exchange import exchange
from jaxlm.ngram.word_classes import bigrams

VOCAB_SIZE, EOS = 40, 0
PREDICTS = class_ngram.MODEL.capability(PredictsWords)


def train(ids, num_words=VOCAB_SIZE, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # on small texts discounts may be undefined
        return class_ngram.train(ids, num_words, EOS, Config(**options))


def kneser_ney_of(ids, num_words, order):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return kneser_ney.train(ids, num_words, EOS, order)


def log_prob(params, history):
    return PREDICTS.log_prob(SimpleNamespace(params=params), np.array(history, np.int32))


def event_log_probs(params, ids):
    return PREDICTS.event_log_probs(SimpleNamespace(params=params), ids, False)


@pytest.mark.parametrize("method", ["exchange", "brown"])
def test_the_model_is_the_product_of_its_two_factors(text, method):
    params = train(text, VOCAB_SIZE - 1, order=3, num_classes=7, method=method)
    classes = params.classes.tolist()
    assert set(classes) == set(range(7))
    assert classes[EOS] == 0
    assert classes.count(0) == 1
    of_classes = kneser_ney_of(params.classes[text].astype(np.int32), 7, 3)
    words = text.tolist()
    for history in ([], [5], [3, 24], [9, 9, 8]):
        p_class = np.exp(of_classes.log_prob([0, *(classes[w] for w in history)]))
        expected = [
            p_class[classes[w]] * words.count(w) / sum(words.count(v) for v in range(39) if classes[v] == classes[w])
            for w in range(39)
        ]
        np.testing.assert_allclose(np.exp(log_prob(params, history)), expected, rtol=1e-12)


@pytest.mark.parametrize("method", ["exchange", "brown"])
def test_with_a_class_for_each_word_the_model_is_kneser_ney(text, method):
    params = train(text, VOCAB_SIZE - 1, order=4, num_classes=300, method=method)
    words = kneser_ney_of(text, VOCAB_SIZE - 1, 4)
    np.testing.assert_allclose(event_log_probs(params, text), words.event_log_probs(text), rtol=1e-12)
    np.testing.assert_allclose(log_prob(params, [4, 7]), words.log_prob([EOS, 4, 7]), rtol=1e-12)


def test_classes_are_found_by_the_method_in_the_number_of_passes_that_is_chosen(text):
    counts = bigrams(text, VOCAB_SIZE - 1)
    found = {
        method: train(text, VOCAB_SIZE - 1, order=2, num_classes=7, method=method).classes
        for method in ("brown", "exchange")
    }
    np.testing.assert_array_equal(found["brown"], brown(counts, 7, EOS))
    np.testing.assert_array_equal(found["exchange"], exchange(counts, 7, EOS, 10))
    once = train(text, VOCAB_SIZE - 1, order=2, num_classes=7, passes=1).classes
    np.testing.assert_array_equal(once, exchange(counts, 7, EOS, 1))
    assert len({classes.tobytes() for classes in (*found.values(), once)}) == 3


@pytest.mark.parametrize("order", [1, 2, 5])
def test_words_that_training_lacks_count_as_one_event_among_the_rarest_words(text, order):
    params = train(text, VOCAB_SIZE + 2, order=order, num_classes=10)
    frequency = np.bincount(text, minlength=VOCAB_SIZE + 2)
    lacking = [39, 40, 41]
    assert frequency[lacking].tolist() == [0, 0, 0]
    (g,) = set(params.classes[lacking])
    rarest = np.flatnonzero(frequency == np.min(frequency[:39]))
    assert g in params.classes[rarest]
    total = frequency[params.classes == g].sum() + 1
    np.testing.assert_allclose(np.exp(params.log_prob[lacking]), 1 / 3 / total, rtol=1e-12)
    for history in ([], [39], [5, 40], [7, 1, 2, 3]):
        assert np.exp(log_prob(params, history)).sum() == pytest.approx(1, abs=1e-12)


def test_words_that_training_lacks_are_in_the_class_of_most_of_the_rarest_words(monkeypatch):
    """Of three words that occur once, the first is alone among frequent ones, and two are together."""
    monkeypatch.setattr(class_ngram, "exchange", lambda *_: np.array([0, 1, 2, 2, 1, 1]))
    ids = np.array([4, 5, 1, 0, 4, 5, 2, 0, 4, 5, 3, 0], np.int32)
    params = train(ids, 8, order=2, num_classes=3)
    assert params.classes.tolist() == [0, 1, 2, 2, 1, 1, 2, 2]
    np.testing.assert_allclose(np.exp(params.log_prob[[2, 3, 6, 7]]), [1 / 3, 1 / 3, 1 / 6, 1 / 6], rtol=1e-12)


def test_classes_predict_histories_that_words_have_not_seen():
    """Each word of one class follows each of the other, but for the pair that is asked for."""
    pairs = [(a, b) for a in range(1, 6) for b in range(6, 11) if (a, b) != (3, 8)]
    ids = np.array([w for _ in range(4) for a, b in pairs for w in (a, b, 0)], np.int32)
    params = train(ids, 11, order=3, num_classes=3)
    words = kneser_ney_of(ids, 11, 3)
    assert len(set(params.classes[1:6])) == len(set(params.classes[6:])) == 1
    assert np.exp(log_prob(params, [3])[8]) == pytest.approx(16 / 96, abs=0.01)
    assert log_prob(params, [3])[8] > words.log_prob([EOS, 3])[8] + 1


@pytest.mark.parametrize("ids", [[0], [0, 0, 0], [1, 0], [1, 2, 0]])
@pytest.mark.parametrize("method", ["exchange", "brown"])
def test_smallest_texts_give_models(ids, method):
    params = train(np.array(ids, np.int32), 3, method=method)
    for history in ([], [1], [2, 2]):
        found = log_prob(params, history)
        assert np.isfinite(found).all()
        assert np.exp(found).sum() == pytest.approx(1, abs=1e-12)


def test_only_the_unigrams_of_classes_are_without_a_warning_of_undefined_discounts(text, recwarn):
    class_ngram.train(text, VOCAB_SIZE, EOS, Config(order=3, num_classes=5))
    messages = [str(warning.message) for warning in recwarn]
    assert messages
    assert not [message for message in messages if "1-grams" in message]


def test_damaged_classes_are_refused_in_one_line(text, tmp_path):
    config = Config(order=2, num_classes=6)
    params = train(text, order=2, num_classes=6)
    class_ngram.save(params, tmp_path)
    arrays = {"classes": params.classes, "log_prob": params.log_prob}
    damaged = [
        {"classes": params.classes},
        arrays | {"classes": params.classes.astype(np.int32)},
        arrays | {"classes": params.classes[1:]},
        arrays | {"classes": params.classes - 1},
        arrays | {"classes": params.classes + 1},
        arrays | {"classes": params.classes * 10**12},
        arrays | {"classes": np.zeros_like(params.classes)},
        arrays | {"log_prob": params.log_prob + 1},
        arrays | {"log_prob": np.full_like(params.log_prob, np.nan)},
        arrays | {"log_prob": params.log_prob.astype(np.float32)},
        arrays | {"log_prob": params.log_prob[:, None]},
    ]
    for content in damaged:
        with (tmp_path / "classes.npz").open("wb") as file:
            np.savez(file, allow_pickle=False, **content)
        with pytest.raises(UserError) as refused:
            class_ngram.load(tmp_path, VOCAB_SIZE, EOS, config)
        assert "\n" not in str(refused.value)
    (tmp_path / "classes.npz").unlink()
    with pytest.raises(UserError, match=r"classes.npz"):
        class_ngram.load(tmp_path, VOCAB_SIZE, EOS, config)


def test_files_of_different_models_are_refused(text, tmp_path):
    for name, num_classes in (("six", 6), ("seven", 7)):
        (tmp_path / name).mkdir()
        class_ngram.save(train(text, order=2, num_classes=num_classes), tmp_path / name)
    shutil.copy(tmp_path / "six" / "ngram.npz", tmp_path / "seven")
    with pytest.raises(UserError, match="its files are of different models"):
        class_ngram.load(tmp_path / "seven", VOCAB_SIZE, EOS, Config(order=2, num_classes=7))
