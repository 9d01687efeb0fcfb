"""Helpers: a small random text, and skip-gram and CBOW of random parameters over its words."""

import jax.numpy as jnp
import numpy as np
import pytest

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
