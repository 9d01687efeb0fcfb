"""Helpers: a small random text, and skip-gram and CBOW of random parameters over its words; what is compiled."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlm.capabilities import FillsGaps, Gap
from jaxlm.models.word2vec import cbow, model, skipgram
from jaxlm.trees import build

N_W, D, EOS, WINDOW = 9, 4, 0, 3
TEXT = np.random.default_rng(0).integers(0, N_W, 200).astype(np.int32)
COUNTS = np.bincount(TEXT, minlength=N_W)
TREE = build.huffman(COUNTS)
MODELS = pytest.mark.parametrize("module", [skipgram, cbow], ids=["skipgram", "cbow"])


def config(**options):
    sizes = {"num_features": D, "window": WINDOW, "block_size": 8, "block_noise": 6, "subsample": 0.0}
    return model.Config(num_words=N_W, **{**sizes, **options})


def random_params(cfg, seed=0):
    rng = np.random.default_rng(seed)
    rows = N_W - 1 if cfg.objective == "tree" else N_W
    shapes = (N_W, D), (rows, D)
    return model.Params(*(jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in shapes))


@contextlib.contextmanager
def compilations():
    """Collect the names of the functions that JAX compiles."""
    compiled = []

    def listen(event, seconds, **more):
        if event.endswith("backend_compile_duration"):
            compiled.append(more.get("fun_name"))

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield compiled
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def filled_by_lines_of_other_lengths(fitted, most):
    """Score gaps of lines of one length, then of others; return what the latter compiled."""
    fill, words = fitted.require(FillsGaps, "test"), np.array([3, 1])

    def gaps(*lengths):
        return [Gap(np.full(n, 2, np.int32), np.full(1, 4, np.int32), words) for n in lengths]

    fill.scores(fitted, gaps(1))
    with compilations() as compiled:
        assert all(np.isfinite(scores).all() for scores in fill.scores(fitted, gaps(*range(most))))
    return compiled
