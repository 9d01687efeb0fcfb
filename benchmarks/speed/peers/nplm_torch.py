"""The training step of the NPLM, without direct connections, in PyTorch, as a PyTorch user would write it."""

from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, embedding

from benchmarks.speed.peers.torch_step import by_loss


def loss(R: Tensor, H: Tensor, d: Tensor, U: Tensor, b: Tensor, contexts: Tensor, words: Tensor) -> Tensor:
    """Return the mean cross-entropy of contexts, int[B, c], and words, int[B]."""
    h = torch.tanh(torch.addmm(d, embedding(contexts, R).flatten(1), H.T))
    return cross_entropy(torch.addmm(b, h, U.T), words)


make_step = partial(by_loss, loss, ("R", "H", "d", "U"), ("b",))
