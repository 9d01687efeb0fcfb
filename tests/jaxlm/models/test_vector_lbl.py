"""vLBL and ivLBL against the formulas of their paper, written as loops over the words of a text."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import kstest

import jaxlm
from jaxfit import tables
from jaxfit.errors import UserError
from jaxlm.capabilities import PredictsWords
from jaxlm.data.vocabulary import LeftOut, Vocabulary
from jaxlm.models.vector_lbl import ivlbl, model, vlbl
from jaxlm.models.word2vec import blocks
from jaxlm.tasks import completion
from jaxlm.trained_model import Model
from word2vec_cases import filled_by_lines_of_other_lengths

N_W, D, EOS, WINDOW, NOISE = 9, 4, 0, 2, 3
TEXT = np.random.default_rng(0).integers(0, N_W, 90).astype(np.int32)
CONFIG = model.Config(num_words=N_W, num_features=D, window=WINDOW, num_noise=NOISE, block_size=8)
MODELS = pytest.mark.parametrize("module", [vlbl, ivlbl], ids=["vlbl", "ivlbl"])


def random_params(cfg):
    rng = np.random.default_rng(1)
    params = model.init(jax.random.key(0), cfg, np.bincount(TEXT, minlength=N_W))
    return jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape), jnp.float32), params)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def nce(params, q_hat, word, noise_words, log_p):
    """-log σ(Δs(w)) - Σ_k log(1 - σ(Δs(w_k))), Δs(w) = q̂·q_w + b_w - log k P_n(w) (Eq. 8-9)."""

    def delta(w):
        return q_hat @ params.Q[w] + params.b[w] - np.log(len(noise_words)) - log_p[w]

    return -np.log(sigmoid(delta(word))) - sum(np.log(1 - sigmoid(delta(w))) for w in noise_words)


@MODELS
@pytest.mark.parametrize("position_dependent", [True, False])
def test_loss_of_a_text_is_the_paper_s_formula(module, position_dependent):
    cfg = dataclasses.replace(CONFIG, position_dependent=position_dependent)
    params = random_params(cfg)
    data = blocks.redraw(model.texts(cfg, EOS)(TEXT), jax.random.key(1), cfg)  # which leaves all as it is
    index = jnp.arange(blocks.num_blocks(data))
    gathered = jax.jit(lambda index, key: model.with_noise(model.gather(data, index, 0, cfg), key, jnp.zeros(()), cfg))
    batch = gathered(index, jax.random.key(2))
    whole = jax.tree.map(lambda x: np.asarray(x, np.float64), params)
    counts = np.bincount(TEXT[TEXT != EOS], minlength=N_W)
    log_p = np.log(np.maximum(counts, 1) / np.maximum(counts, 1).sum())
    expected, number = np.zeros(len(index)), 0
    for line in np.split(TEXT, np.flatnonzero(TEXT == EOS) + 1):
        words = line[line != EOS]
        for t, word in enumerate(words):
            block, number = number // cfg.block_size, number + 1
            vectors = []
            for place, offset in enumerate((-2, -1, 1, 2)):
                if 0 <= t + offset < len(words):
                    c = whole.c[place] if position_dependent else np.ones(D)
                    vectors.append(c * whole.R[words[t + offset]])
            if module is vlbl:
                vectors = [sum(vectors) / len(vectors)] if vectors else []
            for q_hat in vectors:
                expected[block] += nce(whole, q_hat, word, np.asarray(batch.aux.words[block]), log_p)
    assert number == blocks.num_words(data)
    weight = np.linspace(0.5, 2, len(index)).astype(np.float32)
    rows = tables.gathered(params, model.touched(batch, cfg))
    total, metrics = jax.jit(module.batch_loss, static_argnums=4)(rows, batch, weight, None, cfg)
    np.testing.assert_allclose(total, weight @ expected, rtol=1e-5)
    (mean,) = metrics.values()  # over words
    words_of_block = np.bincount(np.arange(number) // cfg.block_size)
    np.testing.assert_allclose((mean.total, mean.count), (weight @ expected, weight @ words_of_block), rtol=1e-5)
    specified = jax.jit(jax.vmap(lambda example: module.loss(params, example, cfg)))(batch)
    np.testing.assert_allclose(specified, expected, rtol=1e-4)


def test_before_training_words_have_their_base_rates_and_positions_weigh_alike():
    counts = np.append([5, 0, 1], np.ones(1997))
    params = model.init(jax.random.key(0), dataclasses.replace(CONFIG, num_words=2000), counts)
    np.testing.assert_allclose(np.exp(params.b), np.maximum(counts, 1) / 2004, rtol=1e-5)
    drawn = D * np.asarray(params.R)
    assert not drawn[1].any()
    assert kstest(np.delete(drawn, 1, axis=0).ravel(), "uniform", (-0.5, 1)).pvalue > 1e-6
    assert not np.any(params.Q)
    np.testing.assert_array_equal(params.c, np.ones((2 * WINDOW, D)))


@MODELS
def test_without_weights_of_positions_there_are_none_among_the_parameters(module):
    cfg = dataclasses.replace(CONFIG, position_dependent=False)
    assert model.init(jax.random.key(0), cfg, np.ones(N_W)).c is None
    assert module.MODEL.capability(PredictsWords) is None  # hence no perplexity


@MODELS
def test_models_are_trained_without_weights_of_positions(module):
    """Which the recipe has a rate for; a rate of them that a user gives has no effect, and is refused."""
    options = {"num_features": D, "epochs": 1, "position_dependent": False, "progress": False}
    lines = ["he saw tea and she saw bread", "she took tea and he took bread"] * 20
    model = jaxlm.train(module.MODEL.name, lines, **options)
    assert model.params.c is None
    assert model.info["recipe"]["rate"] == {"*": 0.1}
    with pytest.raises(UserError, match=r"no parameter is called 'c' \(--rate\) - use one of R, Q, b"):
        jaxlm.train(module.MODEL.name, lines, rate={"c": 0.02}, **options)


@MODELS
@pytest.mark.parametrize("position_dependent", [True, False])
def test_words_fit_a_gap_by_the_scores_of_all_predictions_within_a_window(module, position_dependent):
    """By loops over places: vLBL predicts the word from its window, ivLBL its window's words from the word."""
    cfg = dataclasses.replace(CONFIG, position_dependent=position_dependent, subsample=0.05)
    params = random_params(cfg)
    vocabulary = Vocabulary(("<eos>", "<unk>", *"abcdefg"), np.bincount(TEXT, minlength=N_W), LeftOut(5, 9, "none"))
    fitted = Model(module.MODEL, vocabulary, cfg, params, {})
    questions = [
        completion.Question("1", "a b c _____ d e g", ["f", "a b", "zebra"], "q, line 1"),
        completion.Question("2", "_____ d", ["f", "a", "b"], "q, line 2"),
        completion.Question("3", "_____", ["f", "a", "b"], "q, line 3"),
    ]
    found = completion.gap_scores(fitted, questions, str, period_apart=False) * np.log(10)
    whole = jax.tree.map(lambda x: np.asarray(x, np.float64), params)

    def fit(w, around):
        """Of one word, from the offsets and ids of those around it."""
        q_hats, of_pairs = [], 0.0
        for offset, v in around:
            place = -offset if module is ivlbl else offset  # of the word that predicts, from the other
            c = whole.c[(-2, -1, 1, 2).index(place)] if position_dependent else np.ones(D)
            q_hats.append(c * whole.R[v])
            of_pairs += (c * whole.R[w]) @ whole.Q[v] + whole.b[v]
        if module is ivlbl:
            return of_pairs
        q_hat = sum(q_hats) / max(1, len(q_hats))
        share = 0.05 * vocabulary.counts[1:].sum() / vocabulary.counts[w]
        log_kept = np.log(min(1, np.sqrt(share) + share))
        return np.sum(q_hat * whole.Q[w]) + whole.b[w] - np.log(5) * (w == vocabulary.unk) - log_kept

    def ids(words):
        return [vocabulary.ids.get(word, vocabulary.unk) for word in words]

    for question, scores in zip(questions, found, strict=True):
        words = question.text.split()
        gap = words.index("_____")
        around = [(t - gap, v) for t, v in enumerate(ids(words)) if 0 < abs(t - gap) <= WINDOW]
        for choice, score in zip(question.choices, scores, strict=True):
            expected = np.mean([fit(w, around) for w in ids(choice.split())])
            assert score == pytest.approx(expected, rel=1e-5, abs=1e-5)


@MODELS
def test_lines_of_other_lengths_compile_nothing(module):
    vocabulary = Vocabulary(("<eos>", "<unk>", *"abcdefg"), np.bincount(TEXT, minlength=N_W), LeftOut(5, 9, "none"))
    fitted = Model(module.MODEL, vocabulary, CONFIG, random_params(CONFIG), {})
    assert filled_by_lines_of_other_lengths(fitted, 5) == []
