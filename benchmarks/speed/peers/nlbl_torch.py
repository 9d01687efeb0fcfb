"""The training step of the nonlinear log-bilinear model in PyTorch, as a PyTorch user would write it."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, embedding

from benchmarks.speed.peers.torch_step import Step, parameter, step_by, updates


def make_step(
    params: Any, config: Any, optimizer: str, rate: float, decay: float, compiled: bool
) -> tuple[Step, list[Tensor]]:
    """Return a step by the mean cross-entropy of contexts, int[B, c], and words, int[B], and the updated parameters.

    Args:
        params, config: those of jaxlm.
        optimizer, rate, decay: as in `torch_step.updates`.
        compiled: whether to compile the loss by `torch.compile`.
    """
    moved = [parameter(x) for x in params[:7]]

    def loss(
        R: Tensor, C: Tensor, A: Tensor, a: Tensor, B: Tensor, e: Tensor, b: Tensor, contexts: Tensor, words: Tensor
    ) -> Tensor:
        x = embedding(contexts, R).flatten(1)
        h = torch.sigmoid(torch.addmm(a, x, A.T))
        r_hat = torch.addmm(e, h, B.T) + x @ C.transpose(1, 2).flatten(0, 1)
        return cross_entropy(torch.addmm(b, r_hat, R.T), words)

    forward = torch.compile(loss) if compiled else loss
    step = step_by(updates(optimizer, rate, decay, moved[:6], moved[6:]), lambda *batch: forward(*moved, *batch))
    return step, moved
