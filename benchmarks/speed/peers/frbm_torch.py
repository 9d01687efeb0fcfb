"""The training step of the factored RBM in PyTorch (CD-1), written as a PyTorch user would write it."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding, softplus

from benchmarks.speed.peers.torch_step import Step, parameter, step_by, updates


def make_step(
    params: Any, config: Any, optimizer: str, rate: float, decay: float, compiled: bool
) -> tuple[Step, list[Tensor]]:
    """Return a step by the mean of CD-1 over contexts, int[B, c], and words, int[B], and the updated parameters.

    Args:
        params, config: those of jaxlm.
        optimizer, rate, decay: as in `torch_step.updates`.
        compiled: whether to compile the loss by `torch.compile`.
    """
    R, W, b_h, b_v = moved = list(map(parameter, params))

    def loss(R: Tensor, W: Tensor, b_h: Tensor, b_v: Tensor, contexts: Tensor, words: Tensor) -> Tensor:
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

    forward = torch.compile(loss) if compiled else loss
    step = step_by(updates(optimizer, rate, decay, [R, W], [b_h, b_v]), lambda *batch: forward(*moved, *batch))
    return step, moved
