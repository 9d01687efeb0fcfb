"""The training step of the factored RBM in PyTorch (CD-1), written as a PyTorch user would write it."""

from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import embedding, softplus

from benchmarks.speed.peers.torch_step import by_loss


def loss(R: Tensor, W: Tensor, b_h: Tensor, b_v: Tensor, contexts: Tensor, words: Tensor) -> Tensor:
    """Return the mean of CD-1 over contexts, int[B, c], and words, int[B]."""
    a = torch.addmm(b_h, embedding(contexts, R).flatten(1), W[:-1].flatten(0, 1))

    def free_energy(word: Tensor) -> Tensor:
        return -softplus(a + embedding(word, R) @ W[-1]).sum(1) - b_v[word]

    with torch.no_grad():
        h = torch.bernoulli(torch.sigmoid(a + embedding(words, R) @ W[-1]))
        logits = torch.addmm(b_v, h @ W[-1].T, R.T)
        # by inversion: torch.multinomial draws a random number for each word, and a step takes 2.7 times as long
        sums = torch.softmax(logits, 1).cumsum(1)
        sample = torch.searchsorted(sums, sums[:, -1:] * torch.rand(len(words), 1, device=words.device))[:, 0]
    return (free_energy(words) - free_energy(sample)).mean()


make_step = partial(by_loss, loss, ("R", "W"), ("b_h", "b_v"))
