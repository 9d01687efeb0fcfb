"""The training step of the log-bilinear model in PyTorch, written as a PyTorch user would write it."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, embedding

from benchmarks.speed.peers.torch_step import Step, parameter, step_by, updates


def make_step(
    params: Any, config: Any, optimizer: str, rate: float, decay: float, compiled: bool
) -> tuple[Step, list[Tensor]]:
    """Return a step by mean cross-entropy (Eq. 3.17) of contexts, int[B, c], and words, int[B], and updated parameters.

    Args:
        params, config: those of jaxlm.
        optimizer, rate, decay: as in `torch_step.updates`.
        compiled: whether to compile the loss by `torch.compile`.
    """
    R, C, b = map(parameter, params[:3])

    def loss(R: Tensor, C: Tensor, b: Tensor, contexts: Tensor, words: Tensor) -> Tensor:
        r_hat = torch.einsum("ijk,bik->bj", C, embedding(contexts, R))
        return cross_entropy(torch.addmm(b, r_hat, R.T), words)

    forward = torch.compile(loss) if compiled else loss
    step = step_by(updates(optimizer, rate, decay, [R, C], [b]), lambda *batch: forward(R, C, b, *batch))
    return step, [R, C, b]
