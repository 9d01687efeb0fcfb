"""What the training steps in PyTorch have in common: the update, and the step itself."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

# step(read int[B, ...], words int[B, ...]): words, and those that they are predicted from
Step = Callable[[np.ndarray, np.ndarray], None]


def updates(
    optimizer: str, rate: float, decay: float, weights: Sequence[Tensor], biases: Sequence[Tensor]
) -> torch.optim.Optimizer:
    """Return the update; optimizer: sgd | adam, with decay of the weights alone (for Adam decoupled)."""
    groups = [
        {"params": weights, "weight_decay": decay},
        {"params": biases, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=rate) if optimizer == "adam" else torch.optim.SGD(groups, lr=rate)


def step_by(update: torch.optim.Optimizer, loss: Callable[[Tensor, Tensor], Tensor]) -> Step:
    """Return one step of the mean loss of a minibatch."""

    def step(read: np.ndarray, words: np.ndarray) -> None:
        update.zero_grad(set_to_none=True)
        loss(torch.from_numpy(read), torch.from_numpy(words)).backward()
        update.step()

    return step


def parameter(array: Any) -> Tensor:
    """Return an array as a parameter that is trained."""
    return torch.tensor(np.asarray(array)).requires_grad_()
