"""The training step of the NPLM, without direct connections, in PyTorch, as a PyTorch user would write it."""

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
    moved = [parameter(x) for x in (params.R, params.H, params.d, params.U, params.b)]

    def loss(R: Tensor, H: Tensor, d: Tensor, U: Tensor, b: Tensor, contexts: Tensor, words: Tensor) -> Tensor:
        h = torch.tanh(torch.addmm(d, embedding(contexts, R).flatten(1), H.T))
        return cross_entropy(torch.addmm(b, h, U.T), words)

    forward = torch.compile(loss) if compiled else loss
    step = step_by(updates(optimizer, rate, decay, moved[:4], moved[4:]), lambda *batch: forward(*moved, *batch))
    return step, moved
