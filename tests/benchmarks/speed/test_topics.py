"""The speed benchmark of models of documents: trainings to the perplexity of LDA, in turn."""

import numpy as np
import pytest

from benchmarks.data import document_sets
from benchmarks.speed import topics
from benchmarks.speed.peers import lda

CORPUS = document_sets.planted((300, 60, 60))
UNIFORM = np.full((3, 40), 1 / 40, np.float32)


def test_passes_are_the_fewest_that_reach_the_target_or_those_that_come_nearest():
    found = [(1.0, 30.0), (2.0, 19.0), (4.0, 18.0)]
    assert topics._fewest((1, 2, 4), found, 20.0) == 2
    assert topics._fewest((1, 2, 4), found[::-1], 17.0) == 1


def test_times_are_divided_by_ours_and_documents_are_counted_in_every_pass():
    pairs = {topics.OURS: [(2.0, 30.0), (5.0, 32.0)], "peer": [(6.0, 40.0), (10.0, 42.0)]}
    rounds = {label: [topics.Timed(*pair) for pair in each] for label, each in pairs.items()}
    ours, theirs = topics._table(300, {topics.OURS: 5, "peer": 2}, rounds).values()
    assert ours["documents/s"]["samples"] == [750.0, 300.0]
    assert theirs["documents/s"]["samples"] == [100.0, 60.0]
    assert theirs["this / jaxlm, s of training"]["samples"] == [3.0, 2.0]
    assert [row["perplexity of test documents"]["median"] for row in (ours, theirs)] == [31.0, 41.0]
    assert [(row["passes"], row["s of training"]["median"]) for row in (ours, theirs)] == [(5, 3.5), (2, 8.0)]


def test_the_time_to_a_perplexity_that_is_not_reached_is_infinite():
    reached, missed = topics.Timed(2.0, 30.0), topics.Timed(6.0, 40.0, False)
    ours, theirs = topics._table(300, {topics.OURS: 5, "peer": 2}, {topics.OURS: [reached], "peer": [missed]}).values()
    assert (ours["s of training"]["median"], theirs["s of training"]["median"]) == (2.0, None)
    assert theirs["this / jaxlm, s of training"]["median"] is None
    assert theirs["documents/s"]["median"] == 100.0
    ours, theirs = topics._table(300, {topics.OURS: 5, "peer": 2}, {topics.OURS: [missed], "peer": [reached]}).values()
    assert (ours["s of training"]["median"], theirs["s of training"]["median"]) == (None, 2.0)
    assert "this / jaxlm, s of training" not in theirs


@pytest.mark.extended
def test_trainings_are_timed_in_turn_and_evaluated_on_test_documents(monkeypatch):
    """A peer whose topics are uniform has a perplexity of the number of words, which ours is to reach, at any pass."""
    problems = []

    def fit(label, problem):
        problems.append(problem)
        return lda.Fitted(100.0 * problem.passes, UNIFORM)

    monkeypatch.setattr(lda, "PEERS", {"peer": lda.Peer("numpy", None)})
    monkeypatch.setattr(lda, "fit_aside", fit)
    found = topics.measure("docnade", peers=True, corpus=CORPUS, size=3, passes=(1, 2))
    ours, theirs = found["tables"][topics.TITLE].values()
    assert found["setting"]["perplexity to reach on validation documents"] == pytest.approx(40.4)
    assert theirs["passes"] == 1
    assert theirs["perplexity of test documents"]["median"] == pytest.approx(40, rel=1e-4)
    assert ours["perplexity of test documents"]["median"] < 40
    np.testing.assert_allclose(theirs["documents/s"]["samples"], 300 / 100)
    ratio = np.divide(theirs["s of training"]["samples"], ours["s of training"]["samples"])
    np.testing.assert_allclose(theirs["this / jaxlm, s of training"]["samples"], ratio)
    assert [problem.passes for problem in problems] == [1, 2] + [1] * topics.ROUNDS
    assert len({problem.seed for problem in problems}) == 1 + topics.ROUNDS


@pytest.mark.extended
@pytest.mark.peer
def test_other_packages_find_planted_topics():
    """Nearer to the documents' own words than the unigram distribution is, each with the seed that it is given."""
    for label, peer in lda.PEERS.items():
        pytest.importorskip(peer.package, reason=label)
    perplexities = {label: topics.their_training(label, CORPUS, 4)(8, 0).perplexity(CORPUS.test) for label in lda.PEERS}
    rates = CORPUS.word_counts() / CORPUS.word_counts().sum()
    test = CORPUS.test.with_words()
    unigram = np.exp(np.mean(-(test.counts @ np.log(np.maximum(rates, 1e-6))) / test.lengths))
    assert all(perplexity < 0.9 * unigram for perplexity in perplexities.values()), (perplexities, unigram)
