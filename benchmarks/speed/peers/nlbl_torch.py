"""The training step of the nonlinear log-bilinear model in PyTorch, as a PyTorch user would write it."""

from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, embedding

from benchmarks.speed.peers.torch_step import by_loss


def loss(
    R: Tensor, C: Tensor, A: Tensor, a: Tensor, B: Tensor, e: Tensor, b: Tensor, contexts: Tensor, words: Tensor
) -> Tensor:
    """Return the mean cross-entropy of contexts, int[B, c], and words, int[B]."""
    x = embedding(contexts, R).flatten(1)
    h = torch.sigmoid(torch.addmm(a, x, A.T))
    r_hat = torch.addmm(e, h, B.T) + x @ C.transpose(1, 2).flatten(0, 1)
    return cross_entropy(torch.addmm(b, r_hat, R.T), words)


make_step = partial(by_loss, loss, ("R", "C", "A", "a", "B", "e"), ("b",))
