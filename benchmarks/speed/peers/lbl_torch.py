"""The training step of the log-bilinear model in PyTorch, written as a PyTorch user would write it."""

from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, embedding

from benchmarks.speed.peers.torch_step import by_loss


def loss(R: Tensor, C: Tensor, b: Tensor, contexts: Tensor, words: Tensor) -> Tensor:
    """Return the mean cross-entropy (Eq. 3.17) of contexts, int[B, c], and words, int[B]."""
    r_hat = torch.einsum("ijk,bik->bj", C, embedding(contexts, R))
    return cross_entropy(torch.addmm(b, r_hat, R.T), words)


make_step = partial(by_loss, loss, ("R", "C"), ("b",))
