"""Sentences drawn from a model: their distribution, and what they depend on."""

import dataclasses

import numpy as np
import pytest
from scipy.stats import chisquare

import jaxlm
from jaxfit.errors import UserError
from jaxlm.capabilities import CarriesState, PredictsWords
from jaxlm.contract import LanguageModel
from jaxlm.data.vocabulary import Vocabulary
from jaxlm.tasks.sample import sentence
from jaxlm.trained_model import Model

WORDS = ("a", "<eos>", "b", "never")
P = np.array([0.5, 0.3, 0.2, 0.0])


def unigram(p=P):
    """Return a model whose words do not depend on those before."""
    with np.errstate(divide="ignore"):
        log_p = np.log(p)
    predicts = PredictsWords(lambda model, history: log_p, lambda model, ids, fresh_lines: log_p[ids])
    record = LanguageModel(name="toy", about="", source="", config=object, fitting=None, capabilities=(predicts,))
    return Model(record, Vocabulary(WORDS), None, None, {})


def test_words_have_the_models_probabilities():
    """Chi-squared test at p = 0.001."""
    model, counts = unigram(), dict.fromkeys(WORDS, 0)
    for line in range(3000):
        words, ended = sentence(model, 0, line)
        assert ended
        for word in [*words, "<eos>"]:
            counts[word] += 1
    assert counts.pop("never") == 0
    total = sum(counts.values())
    assert chisquare(list(counts.values()), [total * p for p in P[:3]]).pvalue > 0.001


def test_a_long_line_is_cut():
    words, ended = sentence(unigram(np.array([0.5, 0.0, 0.5, 0.0])), 0, 0, longest=7)
    assert (len(words), ended) == (7, False)


def test_words_are_those_drawn_from_predictions_by_whole_histories():
    """Of a model that carries its state, and of one that reads all words before: the same, by the same numbers."""
    table = np.random.default_rng(0).dirichlet([3, 1, 3], size=(4, 4))  # by the two words before
    table = np.log(np.insert(table, 3, 1e-9, axis=2))

    def log_prob(model, history):
        return table[tuple([1, 1, *history][-2:])]

    def advance(model, state, word):
        return (state[1], word), table[state[1], word]

    def start(model, history):
        return tuple([1, 1, *history][-2:]), log_prob(model, history)

    plain, predicts = unigram(), PredictsWords(log_prob, lambda model, ids, fresh_lines: None)
    by_histories, by_states = (
        dataclasses.replace(plain, record=dataclasses.replace(plain.record, capabilities=capabilities))
        for capabilities in ((predicts,), (predicts, CarriesState(start, advance)))
    )
    drawn = [sentence(by_states, 1, line, longest=9, prefix=["b"]) for line in range(20)]
    assert drawn == [sentence(by_histories, 1, line, longest=9, prefix=["b"]) for line in range(20)]
    assert len({tuple(words) for words, _ in drawn}) > 10


def test_a_prefix_as_long_as_a_line_may_be_is_the_line():
    assert sentence(unigram(), 0, 0, longest=1, prefix=["b", "a"]) == (["b", "a"], False)


@pytest.mark.parametrize("name", ["kn", "lbl"])
def test_a_line_depends_on_seed_and_number_alone(place, name):
    model = jaxlm.load(place / name)
    lines = [sentence(model, 5, k)[0] for k in range(6)]
    assert lines[4] == sentence(model, 5, 4)[0]
    assert len({" ".join(line) for line in lines}) > 1
    assert lines != [sentence(model, 6, k)[0] for k in range(6)]
    with pytest.raises(UserError, match=r"invalid value -1 \(seed\)"):
        model.sample(seed=-1)
    for wrong in (0, "5"):
        with pytest.raises(UserError, match=rf"invalid value {wrong!r} \(longest\)"):
            model.sample(longest=wrong)


def test_lines_of_neighbouring_seeds_are_drawn_apart():
    """A line of one seed is no other line of the next one."""
    model = unigram(np.array([0.5, 0.0, 0.5, 0.0]))
    lines = {tuple(sentence(model, seed, line, longest=30)[0]) for seed in range(3) for line in range(3)}
    assert len(lines) == 9


def test_a_prefix_begins_each_line_and_counts_to_its_length():
    words, ended = sentence(unigram(np.array([0.5, 0.0, 0.5, 0.0])), 0, 0, longest=5, prefix=["b", "never"])
    assert (words[:2], len(words), ended) == (["b", "never"], 5, False)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_temperature_raises_probabilities_to_its_inverse(temperature):
    """Chi-squared test at p = 0.001."""
    counts = dict.fromkeys(WORDS, 0)
    for line in range(2000):
        for word in [*sentence(unigram(), 0, line, temperature=temperature)[0], "<eos>"]:
            counts[word] += 1
    expected = P[:3] ** (1 / temperature)
    observed = [counts[word] for word in WORDS[:3]]
    assert chisquare(observed, sum(observed) * expected / expected.sum()).pvalue > 0.001
