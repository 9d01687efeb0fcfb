"""The temporal FRBM against plain loops over Eq. 3.14 and 3.15, and against the FRBM that it contains."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, log_softmax

import jaxlm
from jaxfit import fit
from jaxfit.errors import UserError
from jaxfit.program import Carried
from jaxfit.validation import Validation
from jaxlm.cli.main import main
from jaxlm.context_model import Batch, examples, texts
from jaxlm.data.contexts import NO_WORD, gather_contexts, text_of, without_history
from jaxlm.models import frbm, tfrbm

N_W, D, C, N_H, EOS = 7, 3, 2, 4, 0


def config(**options):
    sizes = {"num_words": N_W, "num_features": D, "context_size": C, "num_hidden": N_H}
    return tfrbm.Config(**{**sizes, **options})


def random_params(seed=0, scale=0.7):
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(lambda key: tfrbm.init(key, config(), np.ones(N_W)), jax.random.key(0))
    return jax.tree.map(lambda x: jnp.asarray(scale * rng.normal(size=x.shape), jnp.float32), shapes)


def random_ids(number, seed=1):
    return np.random.default_rng(seed).integers(0, N_W, number).astype(np.int32)


def by_loop(params, ids, across_lines=True, alone=False):
    """Eq. 3.14 and 3.5 event by event: -log P of each, and p after each; lines begin afresh, or text runs on.

    If `alone`, there are no words before the line end that comes before the text, or before each line.
    """
    p = SimpleNamespace(**{name: np.asarray(x, np.float64) for name, x in params._asdict().items()})
    text = without_history(text_of(ids, EOS)) if alone else text_of(ids, EOS)
    contexts, words = (np.asarray(x) for x in gather_contexts(text, jnp.arange(len(ids)), C, across_lines))
    before, nats, after = np.zeros(N_H), [], []
    for number, (context, word) in enumerate(zip(contexts, words, strict=True)):
        if not across_lines and (number == 0 or ids[number - 1] == EOS):
            before = np.zeros(N_H)
        a = p.b_h + p.A @ before + sum(p.R[w] @ p.W[i] for i, w in enumerate(context) if w != NO_WORD)
        log_weights = p.b_v + np.logaddexp(0, a[None] + p.R @ p.W[-1]).sum(axis=1)
        nats.append(-log_softmax(log_weights)[word])
        before = expit(a + p.R[word] @ p.W[-1])
        after.append(before)
    return np.array(nats), np.array(after)


def model(params, cfg=None):
    return SimpleNamespace(params=params, config=cfg or config(), vocabulary=SimpleNamespace(eos=EOS))


@pytest.mark.parametrize(("across_lines", "fresh_lines"), [(True, False), (True, True), (False, False)])
def test_online_pass_equals_a_loop_over_the_events(across_lines, fresh_lines, monkeypatch):
    monkeypatch.setattr(tfrbm, "EVENTS", 16)  # several calls
    params, ids = random_params(), random_ids(53)
    expected, _ = by_loop(params, ids, across_lines and not fresh_lines, alone=across_lines and fresh_lines)
    of = model(params, config(across_lines=across_lines))
    found = tfrbm.event_log_probs(of, ids, fresh_lines)
    np.testing.assert_allclose(found, -expected, rtol=2e-5)
    assert len(tfrbm.event_log_probs(of, ids[:0], fresh_lines)) == 0


def test_next_word_given_a_line_is_what_the_online_pass_gives_it():
    params, line = random_params(), np.array([3, 5, 1, 6, 2], np.int32)
    ids = np.append(line, EOS).astype(np.int32)
    events = tfrbm.event_log_probs(model(params), ids, True)
    for number, word in enumerate(ids):
        found = tfrbm.log_prob(model(params), line[:number])
        np.testing.assert_allclose(np.exp(found).sum(), 1, rtol=1e-5)
        np.testing.assert_allclose(found[word], events[number], rtol=2e-5)


@pytest.mark.parametrize("across_lines", [True, False])
def test_a_history_of_several_lines_is_read_as_a_text_is(across_lines):
    params, ids = random_params(), random_ids(24)
    assert np.count_nonzero(ids[:-1] == EOS) > 1
    of, (nats, _) = (
        model(params, config(across_lines=across_lines)),
        by_loop(params, ids, across_lines, alone=across_lines),
    )
    found = [tfrbm.log_prob(of, ids[:number])[word] for number, word in enumerate(ids)]
    np.testing.assert_allclose(found, -nats, rtol=2e-5)


def test_without_temporal_weights_it_is_the_frbm():
    params = random_params()._replace(A=jnp.zeros((N_H, N_H)))
    plain, cfg = frbm.Params(*params[:4]), config()
    of_frbm = frbm.Config(num_words=N_W, num_features=D, context_size=C, num_hidden=N_H)
    batch = Batch(*(x[:6] for x in examples(random_ids(6), C, EOS)))
    carry, weight = jnp.asarray(np.random.default_rng(0).random((6, N_H)), jnp.float32), jnp.arange(6.0)
    keys = jax.random.split(jax.random.key(0), 6)
    one = frbm.batch_loss(plain, batch, weight, keys, of_frbm)
    two = tfrbm.batch_loss(params, Carried(batch, carry), weight, keys, cfg)
    np.testing.assert_array_equal(one[0], two[0])
    np.testing.assert_array_equal(frbm.score(plain, batch, of_frbm), tfrbm.score(params, Carried(batch, carry), cfg)[0])


def test_temporal_weights_move_by_their_rule():
    """Eq. 3.15: (p - p̂) of an event times p of the one before, where p̂ belongs to the chain's last word."""
    params, cfg = random_params(), config()
    batch = Batch(*(x[:6] for x in examples(random_ids(6), C, EOS)))
    carry, weight = jnp.asarray(np.random.default_rng(0).random((6, N_H)), jnp.float32), jnp.arange(6.0)
    keys = jax.random.split(jax.random.key(0), 6)
    moved = jax.grad(lambda p: tfrbm.batch_loss(p, Carried(batch, carry), weight, keys, cfg)[0])(params).A
    a = tfrbm.shifted_input(params, batch.context, carry)
    start, all_kept = frbm.of_words(params, batch.word), jnp.ones((1, 1))
    sample, _ = frbm.chain(params, a, start, all_kept, batch.word, keys, cfg)
    sample = sample[:, 0]
    assert np.any(sample != batch.word)
    p, p_hat = (tfrbm.posterior(params, a, word) for word in (batch.word, sample))
    expected = -np.einsum("b,bi,bj->ij", weight, p - p_hat, carry)
    np.testing.assert_allclose(moved, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("across_lines", [True, False])
def test_validation_in_parallel_streams_agrees_with_the_online_pass(across_lines):
    params, ids, cfg = random_params(scale=0.4), random_ids(3000), config(across_lines=across_lines)
    program, data = tfrbm.program(cfg), texts(cfg, EOS)(ids)
    expected, _ = by_loop(params, ids, across_lines)
    found = Validation(program, data, None).mean(params)
    np.testing.assert_allclose(found, expected.mean(), rtol=1e-6)  # streams of 12 events, after 64 of burn-in
    online = fit.scores(program, params, data)
    np.testing.assert_allclose(online, expected, rtol=1e-4, atol=1e-5)


def test_training_cases_are_refused():
    with pytest.raises(UserError, match="words in their order"):
        config(targets="contexts")
    with pytest.raises(UserError, match="there is no option 'targets'"):
        jaxlm.train("tfrbm", ["a b", "b a"] * 20, targets="contexts", progress=False)


def test_help_does_not_offer_training_cases(capsys):
    for model, offered in (("frbm", True), ("tfrbm", False)):
        with pytest.raises(SystemExit):
            main(["train", model, "--help-all"])
        assert ("--targets" in capsys.readouterr().out) == offered
