"""DocNADE-LM against its equations, word by word, and against the NPLM that it contains."""

import itertools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxfit import tables
from jaxlm.context_model import Batch, examples
from jaxlm.models import nplm
from jaxlm.models.docnade_lm import model as docnade_lm

N_W, D, C, N_H, EOS = 7, 3, 2, 4, 0
TEXT = np.array([3, 4, 0, 5, 6, 1, 0, 2, 2, 0, 4, 0, 6, 3, 5, 1, 0, 1, 0, 2, 6], np.int32)  # six lines, and a begun one
WEIGHT = np.float32([1, 0.5, 0, 2])

batch_gradient = jax.jit(
    jax.value_and_grad(docnade_lm.batch_loss, has_aux=True), static_argnums=4
)  # of whole parameters, as with the softmax
specification = jax.jit(docnade_lm.loss, static_argnums=4)
gradient_of_one = jax.jit(jax.value_and_grad(docnade_lm.loss), static_argnums=4)


def config(**options):
    sizes = {"num_words": N_W, "num_features": D, "context_size": C, "num_hidden": N_H, "group_lines": 2}
    found = docnade_lm.Config(**{**sizes, **options})
    return found.given_counts(np.arange(N_W, 0, -1))


def random_params(cfg, seed=0, scale=0.7):
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(lambda key: docnade_lm.init(key, cfg, np.ones(N_W)), jax.random.key(0))
    return jax.tree.map(lambda x: jnp.asarray(scale * rng.normal(size=x.shape), jnp.float32), shapes)


def by_hand(params, document, contexts, cfg):
    """Eq. 19-21 word by word in float64: log p of each word of a document."""
    p = jax.tree.map(lambda x: np.asarray(x, np.float64), params)
    U_k = [p.H[:, (C - k) * D : (C - k + 1) * D] for k in range(1, C + 1)]  # U_1 is of the last word
    found = []
    for i, word in enumerate(document):
        h_DN = sum(p.W[v] for v in document[:i]) / i if i else np.zeros(N_H)
        h_LM = sum(U_k[k - 1] @ p.R[contexts[i][-k]] for k in range(1, C + 1))
        h = np.tanh(p.d + h_DN + h_LM)
        scores, log_p = p.U @ h + p.b, 0.0
        alike = np.arange(N_W)
        if cfg.objective == "classes":
            of_words = np.searchsorted(cfg.class_ends, np.arange(N_W), side="right")
            of_class = p.head.Q @ h + p.head.a
            log_p = of_class[of_words[word]] - np.log(np.exp(of_class).sum())
            alike = np.flatnonzero(of_words == of_words[word])
        found.append(log_p + scores[word] - np.log(np.exp(scores[alike]).sum()))
    return found


def documents_of(ids, cfg):
    """Return the words and contexts of each document."""
    contexts, words = (np.asarray(x) for x in examples(ids, C, EOS, cfg.across_lines))
    ends = np.cumsum(docnade_lm.costs(docnade_lm.texts(cfg, EOS)(ids)))
    return list(zip(np.split(words, ends[:-1]), np.split(contexts, ends[:-1]), strict=True))


def batch_of(cfg, index=(2, 0, 3, 1), capacity=30):
    return docnade_lm.gather(docnade_lm.texts(cfg, EOS)(TEXT), jnp.array(index), capacity, cfg)


def model(params, cfg):
    return SimpleNamespace(params=params, config=cfg, texts=lambda chosen: docnade_lm.texts(chosen, EOS))


def log_probs(params, cfg, ids=TEXT, fresh_lines=False):
    return docnade_lm.event_log_probs(model(params, cfg), np.asarray(ids, np.int32), fresh_lines)


@pytest.mark.parametrize("objective", ["softmax", "classes"])
def test_the_loss_of_a_document_is_that_of_the_equations(objective):
    cfg = config(objective=objective)
    params = random_params(cfg)
    for words, contexts in documents_of(TEXT, cfg):
        expected = by_hand(params, words, contexts, cfg)
        assert np.ptp(expected) > 0.1
        np.testing.assert_allclose(specification(params, contexts, words, None, cfg), -sum(expected), rtol=1e-5)


@pytest.mark.parametrize("options", [{}, {"objective": "classes"}, {"dropout": 0.5, "feature_dropout": 0.4}], ids=str)
def test_loss_and_gradient_of_a_minibatch_are_the_sums_of_the_specification(options):
    """With padding, documents of weight zero, and dropout drawn by the same keys."""
    cfg = config(**options)
    params, batch, index = random_params(cfg), batch_of(cfg), (2, 0, 3, 1)
    keys = jax.random.split(jax.random.key(1), 4) if options.get("dropout") else None
    (total, metrics), gradient = batch_gradient(params, batch, WEIGHT, keys, cfg)
    documents, expected = documents_of(TEXT, cfg), jax.tree.map(jnp.zeros_like, (total, gradient))
    for place, (number, weight) in enumerate(zip(index, WEIGHT, strict=True)):
        words, contexts = documents[number]
        found = gradient_of_one(params, contexts, words, None if keys is None else keys[place], cfg)
        expected = jax.tree.map(lambda x, y, w=weight: x + w * y, expected, found)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5), (total, gradient), expected)
    assert np.abs(gradient.W).max() > 0.01
    mean = metrics["perplexity"]
    assert (mean.total, mean.count) == (total, WEIGHT @ [len(documents[number][0]) for number in index])


def test_rows_that_a_step_reads_give_the_loss_of_the_words_drawn():
    cfg = config(objective="nce", num_noise=3)
    params, program = random_params(cfg), docnade_lm.program(cfg)
    data = docnade_lm.texts(cfg, EOS)(TEXT)
    batch = program.at_step(program.batch(data, jnp.arange(4), 24, cfg), jax.random.key(0), jnp.float32(0), cfg)
    rows = tables.gathered(params, docnade_lm.touched(batch, cfg))
    found, _ = docnade_lm.batch_loss(rows, batch, WEIGHT, None, cfg)
    scored, real = [], np.flatnonzero(np.asarray(batch.word) >= 0)
    plain = config()
    vectors, means = params.R[batch.context], docnade_lm.document_means(params.W[jnp.maximum(batch.word, 0)], batch)
    for n in real:
        z = docnade_lm.last_layer(params, vectors[n], means[n], None, plain)
        scores = np.asarray(params.U @ z + params.b, np.float64)
        noise, word = np.asarray(batch.aux.words[n]), int(batch.word[n])
        log_noise = np.log(3) + np.log(np.bincount(TEXT, minlength=N_W) / len(TEXT))
        of_noise = np.log1p(np.exp(scores[noise] - log_noise[noise])).sum()
        scored.append(WEIGHT[batch.owner[n]] * (np.log1p(np.exp(log_noise[word] - scores[word])) + of_noise))
    np.testing.assert_allclose(found, sum(scored), rtol=1e-4)


def test_without_documents_it_is_the_nplm():
    """Probabilities of the text, and the loss of its events with their gradients."""
    cfg = config(direct=True)
    params = random_params(cfg)._replace(W=jnp.zeros((N_W, N_H)))
    fields = {name: getattr(params, name) for name in nplm.Params._fields}
    network = nplm.Config(N_W, num_features=D, context_size=C, num_hidden=N_H, direct=True)
    every = Batch(*examples(TEXT, C, EOS))
    np.testing.assert_allclose(
        log_probs(params, cfg), -nplm.score(nplm.Params(**fields), every, network), rtol=2e-6, atol=1e-7
    )
    batch, weight = batch_of(cfg, index=(0, 1, 2, 3), capacity=len(TEXT)), np.ones(4, np.float32)
    (total, _), gradient = batch_gradient(params, batch, weight, None, cfg)
    plain = jax.jit(jax.value_and_grad(lambda p: nplm.batch_loss(p, every, np.ones(len(TEXT)), None, network)[0]))
    expected, of_nplm = plain(nplm.Params(**fields))
    np.testing.assert_allclose(total, expected, rtol=1e-6)
    for name in fields:
        jax.tree.map(
            lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5),
            getattr(gradient, name), getattr(of_nplm, name),
        )  # fmt: skip


def test_before_training_documents_have_no_effect():
    cfg = config()
    params = docnade_lm.init(jax.random.key(3), cfg, np.ones(N_W))
    plain = nplm.init(jax.random.key(3), cfg, np.ones(N_W))
    assert not np.any(params.W)
    for name in nplm.Params._fields[:-1]:
        np.testing.assert_array_equal(getattr(params, name), getattr(plain, name))


def test_without_the_ngram_part_the_order_of_earlier_words_does_not_matter():
    cfg = config(group_lines=3)
    params = random_params(cfg)
    without = params._replace(H=jnp.zeros_like(params.H))
    one, other, third = [3, 4, 0, 5, 6, 1, 2], [1, 6, 0, 3, 5, 4, 2], [3, 4, 0, 5, 5, 1, 2]
    last = [log_probs(without, cfg, ids)[-1] for ids in (one, other, third)]
    assert last[0] == pytest.approx(last[1], rel=1e-6)
    assert abs(last[0] - last[2]) > 1e-3
    assert abs(log_probs(params, cfg, one)[-1] - log_probs(params, cfg, other)[-1]) > 1e-3


def test_later_words_do_not_change_earlier_probabilities():
    cfg = config(group_lines=3)
    params, before = random_params(cfg), log_probs(random_params(cfg), cfg)
    for place in range(len(TEXT)):
        changed = TEXT.copy()
        changed[place] = 1 + changed[place] % (N_W - 1)
        changed[place + 1 :] = np.where(TEXT[place + 1 :] == EOS, EOS, N_W - TEXT[place + 1 :])
        if (changed[place] == EOS) != (TEXT[place] == EOS):
            changed[place] = TEXT[place]
        np.testing.assert_allclose(log_probs(params, cfg, changed)[:place], before[:place], rtol=1e-6)


@pytest.mark.parametrize("lines", [1, 2, 3])
def test_documents_begin_anew_with_each_group_of_lines(lines):
    """Without the n-gram part, a document is all that a probability depends on."""
    cfg = config(group_lines=lines)
    params = random_params(cfg)
    params = params._replace(H=jnp.zeros_like(params.H))
    found, ends = log_probs(params, cfg), np.flatnonzero(TEXT == EOS) + 1
    bounds = [0, *ends[lines - 1 :: lines], len(TEXT)]
    for a, b in itertools.pairwise(bounds):
        np.testing.assert_allclose(found[a:b], log_probs(params, cfg, TEXT[a:b]), rtol=1e-5)
    if lines > 1:  # and the second line depends on the first
        alone = log_probs(params, cfg, TEXT[ends[0] : ends[1]])
        assert np.abs(found[ends[0] : ends[1]] - alone).max() > 1e-2
    np.testing.assert_allclose(
        log_probs(params, cfg, fresh_lines=True), log_probs(params, config(group_lines=1)), rtol=1e-5
    )


@pytest.mark.parametrize("across_lines", [True, False])
def test_a_text_is_scored_document_by_document(monkeypatch, across_lines):
    monkeypatch.setattr(docnade_lm, "DOCUMENTS", 3)  # several calls, the last of which is filled up
    cfg = config(across_lines=across_lines)
    params = random_params(cfg)
    expected = [log_p for words, contexts in documents_of(TEXT, cfg) for log_p in by_hand(params, words, contexts, cfg)]
    np.testing.assert_allclose(log_probs(params, cfg), expected, rtol=2e-5)
    assert len(log_probs(params, cfg, [])) == 0
    program, data = docnade_lm.program(cfg), docnade_lm.texts(cfg, EOS)(TEXT)
    assert program.num_events(data) == len(TEXT)
    scores = program.score(params, program.batch(data, jnp.arange(4), 24, cfg), cfg)
    np.testing.assert_allclose(-np.sum(scores), sum(expected), rtol=1e-5)


@pytest.mark.parametrize("across_lines", [True, False])
def test_before_the_line_end_that_precedes_a_fresh_line_there_is_no_word(across_lines):
    """Where contexts ran on across lines in training: weights of earlier places do nothing for a line's first event."""
    cfg, first = config(across_lines=across_lines), np.append(True, TEXT[:-1] == EOS)
    params = random_params(cfg)
    other = params._replace(H=params.H.at[:, : (C - 1) * D].add(1))
    before, after = (log_probs(each, cfg, fresh_lines=True) for each in (params, other))
    np.testing.assert_array_equal(before != after, ~first if across_lines else np.ones(len(TEXT), bool))


@pytest.mark.parametrize(
    ("lines", "starts"),
    [(1, [0, 3, 7, 10, 12, 17, 19, 21]), (2, [0, 7, 12, 19, 21]), (4, [0, 12, 21]), (6, [0, 19, 21]), (9, [0, 21])],
)
def test_documents_are_groups_of_lines_that_do_not_overlap(lines, starts):
    data = docnade_lm.texts(config(group_lines=lines), EOS)(TEXT)
    np.testing.assert_array_equal(docnade_lm.costs(data), np.diff(starts))


def test_probabilities_of_all_documents_of_a_length_sum_to_one():
    cfg = config()
    params, words = random_params(cfg, scale=1.5), np.array(list(itertools.product(range(N_W), repeat=3)), np.int32)
    padded = np.concatenate([np.full((len(words), C), EOS), words], axis=1).astype(np.int32)
    contexts = np.stack([padded[:, i : i + C] for i in range(3)], axis=1)
    log_p = -jax.jit(jax.vmap(lambda c, w: docnade_lm.loss(params, c, w, None, cfg)))(contexts, words)
    assert np.exp(np.asarray(log_p, np.float64)).sum() == pytest.approx(1, abs=1e-5)
    assert np.std(log_p) > 0.5


def test_it_learns_what_is_out_of_the_ngrams_reach():
    """The last word of a line is its first, which the context no longer has: only the document tells it."""
    cfg = config(group_lines=1)
    lines = np.array([[3, 1, 2, 3, 0], [4, 1, 2, 4, 0]], np.int32)
    data = docnade_lm.texts(cfg, EOS)(lines.reshape(-1))
    batch, start = (
        docnade_lm.gather(data, jnp.arange(2), 10, cfg),
        docnade_lm.init(jax.random.key(1), cfg, np.ones(N_W)),
    )

    def fitted(rates):
        def step(_, params):
            gradient = jax.grad(lambda p: docnade_lm.batch_loss(p, batch, jnp.ones(2) / 2, None, cfg)[0])(params)
            return jax.tree.map(lambda x, g, rate: x - rate * g, params, gradient, rates)

        return jax.jit(lambda params: jax.lax.fori_loop(0, 1_000, step, params))(start)

    rates = jax.tree.map(lambda _: 0.3, start)
    last = [-log_probs(fitted(each), cfg, lines.reshape(-1))[[3, 8]] for each in (rates, rates._replace(W=0.0))]
    assert last[0].max() < 0.1
    np.testing.assert_allclose(last[1].mean(), np.log(2), rtol=0.05)
