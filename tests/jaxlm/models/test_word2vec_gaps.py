"""Skip-gram and CBOW fill gaps of sentences, by the formulas of their objectives."""

import numpy as np
import pytest

from jaxlm.capabilities import FillsGaps, Gap
from jaxlm.data.vocabulary import LeftOut, Vocabulary
from jaxlm.models.word2vec import cbow, skipgram
from jaxlm.tasks import completion
from jaxlm.trained_model import Model
from word2vec_cases import COUNTS, MODELS, N_W, TREE, config, filled_by_lines_of_other_lengths, random_params

WORDS = Vocabulary(("<eos>", "<unk>", *"abcdefg"), COUNTS, LeftOut(5, 9, "none"))


@MODELS
def test_words_fit_a_gap_by_what_negative_sampling_learns(module):
    """Skip-gram predicts all other words of the line from the word, CBOW the word from their mean.

    What CBOW learns is how much more probable a word is than as noise, among words of which some are left out.
    """
    cfg = config(subsample=0.05)
    share = 0.05 * COUNTS[1:].sum() / COUNTS
    kept = np.minimum(1, np.sqrt(share) + share)
    assert np.any(kept < 1)
    params = random_params(cfg)
    W, C = (np.asarray(x, np.float64) for x in params)
    fitted = Model(module.MODEL, WORDS, cfg, params, {})
    gaps = [
        Gap(np.array([1, 2, 2, 5]), np.array([7]), np.array([3, 1, 8])),
        Gap(np.zeros(0, np.int32), np.array([4]), np.array([6])),
    ]
    found = module.MODEL.capability(FillsGaps).scores(fitted, gaps)
    for gap, scores in zip(gaps, found, strict=True):
        around = [*gap.before, *gap.after]
        for w, score in zip(gap.words, scores, strict=True):
            if module is skipgram:
                expected = sum(W[w] @ C[v] for v in around)
            else:
                expected = sum(W[v] for v in around) @ C[w] / len(around) + 0.75 * np.log(COUNTS[w]) - np.log(kept[w])
            assert score == pytest.approx(expected, rel=1e-5)


def test_by_a_tree_words_fit_a_gap_by_probabilities():
    """Skip-gram's are of the word beside the gap, CBOW's of the word in it: both sum to one over all words."""
    cfg = config(objective="tree")
    every, one = np.arange(N_W), np.array([4])
    for module, gaps in (
        (skipgram, [Gap(np.array([v]), np.zeros(0, np.int32), one) for v in every]),
        (cbow, [Gap(one, np.array([2]), every)]),
    ):
        fitted = Model(module.MODEL, WORDS, cfg, random_params(cfg), {}, TREE)
        scores = np.concatenate(module.MODEL.capability(FillsGaps).scores(fitted, gaps))
        assert len(scores) == N_W
        assert np.std(scores) > 0.1
        assert np.exp(scores).sum() == pytest.approx(1, abs=1e-5)
    both = Gap(np.array([3, 5]), np.array([3]), one)
    apart = [Gap(np.array([v]), np.zeros(0, np.int32), one) for v in (3, 5, 3)]
    fitted = Model(skipgram.MODEL, WORDS, cfg, random_params(cfg), {}, TREE)
    together, *each = skipgram.MODEL.capability(FillsGaps).scores(fitted, [both, *apart])
    assert together == pytest.approx(sum(each), rel=1e-5)


@pytest.mark.parametrize("objective", ["negative", "tree"])
def test_an_unknown_choice_has_its_share_where_choices_are_predicted(objective):
    """By CBOW; skip-gram predicts the words around them."""
    cfg = config(objective=objective)
    for module, share in ((skipgram, 0), (cbow, np.log(5))):
        fitted = Model(module.MODEL, WORDS, cfg, random_params(cfg), {}, TREE if objective == "tree" else None)
        questions = [completion.Question("1", "a b _____ c", ["d", "zebra"], "here")]
        gap = Gap(np.array([2, 3]), np.array([4]), np.array([5, 1]))
        (expected,) = module.MODEL.capability(FillsGaps).scores(fitted, [gap])
        found = completion.gap_scores(fitted, questions, str, period_apart=False) * np.log(10)
        np.testing.assert_allclose(found, [expected - [0, share]], rtol=1e-6)


@MODELS
@pytest.mark.parametrize("objective", ["negative", "tree"])
def test_lines_of_other_lengths_compile_nothing(module, objective):
    cfg = config(objective=objective)
    fitted = Model(module.MODEL, WORDS, cfg, random_params(cfg), {}, TREE if objective == "tree" else None)
    assert filled_by_lines_of_other_lengths(fitted, 20) == []
