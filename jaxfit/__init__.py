"""How any model here is trained: loops, optimizers, checkpoints; knows nothing of words or ratings."""

__version__ = "0.1.0"
