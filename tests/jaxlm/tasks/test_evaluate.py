"""Sums and counts of an evaluation, against closed forms."""

import math

import numpy as np
import pytest

from jaxlm.tasks.evaluate import Evaluation, evaluate, line_log_probs


def test_a_uniform_model_has_the_perplexity_of_its_vocabulary():
    result = evaluate(np.full(1000, -math.log(50)), unknown=7)
    assert result.perplexity == pytest.approx(50, rel=1e-12)
    assert (result.events, result.unknown) == (1000, 7)
    assert result.record() == {
        "perplexity": result.perplexity,
        "events": 1000,
        "unknown": 7,
        "log_prob": pytest.approx(-1000 * math.log(50)),
    }


def test_perplexity_is_the_inverse_of_the_geometric_mean():
    p = np.array([0.5, 0.1, 0.02])
    assert evaluate(np.log(p)).perplexity == pytest.approx(np.prod(p) ** (-1 / 3), rel=1e-12)


def test_perplexity_of_impossible_events_is_infinite_and_of_none_undefined():
    assert evaluate([-1.0, -math.inf]).perplexity == math.inf
    assert math.isnan(Evaluation(0.0, 0).perplexity)


def test_lines_are_summed_with_their_ends():
    ids = np.array([3, 4, 0, 0, 5, 0], np.int32)
    log_probs = np.array([-1.0, -2, -4, -8, -16, -32])
    np.testing.assert_array_equal(line_log_probs(log_probs, ids, eos=0), [-7, -8, -48])
    with pytest.raises(ValueError, match="line end"):
        line_log_probs(log_probs[:2], ids[:2], eos=0)


def test_events_that_are_unk_can_be_left_out():
    result = evaluate(np.log([0.5, 0.1, 0.25]), 1, np.array([True, False, True]))
    assert result.record()["perplexity_without_unk"] == pytest.approx(8**0.5)
    assert result.record()["events_without_unk"] == 2
    assert "perplexity_without_unk" not in evaluate([-1.0]).record()
