"""What the training steps in PyTorch have in common: the update, and the step itself."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import torch
from torch import Tensor

# step(read int[B, ...], words int[B, ...]): the words that are read, and those that they predict
Step = Callable[[np.ndarray, np.ndarray], None]


def device() -> torch.device:
    """Return where PyTorch trains: on a GPU where JAX does, and on the CPU otherwise."""
    return torch.device("cuda" if jax.default_backend() == "gpu" and torch.cuda.is_available() else "cpu")


def wait() -> None:
    """Wait for all steps that were started."""
    if device().type == "cuda":
        torch.cuda.synchronize()


def updates(
    optimizer: str, rate: float, decay: float, weights: Sequence[Tensor], biases: Sequence[Tensor]
) -> torch.optim.Optimizer:
    """Return the optimizer, with decay of the weights only (decoupled for Adam).

    Args:
        optimizer: "sgd" or "adam".
    """
    groups = [
        {"params": weights, "weight_decay": decay},
        {"params": biases, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=rate) if optimizer == "adam" else torch.optim.SGD(groups, lr=rate)


def step_by(update: torch.optim.Optimizer, loss: Callable[[Tensor, Tensor], Tensor]) -> Step:
    """Return a step by the mean loss of a minibatch, which comes from the host's memory."""
    place = device()

    def step(read: np.ndarray, words: np.ndarray) -> None:
        update.zero_grad(set_to_none=True)
        loss(*(torch.from_numpy(ids).to(place) for ids in (read, words))).backward()
        update.step()

    return step


def parameter(array: Any) -> Tensor:
    """Return an array as a parameter that is trained."""
    return torch.tensor(np.asarray(array), device=device()).requires_grad_()


def by_loss(
    loss: Callable[..., Tensor],
    decayed: Sequence[str],
    others: Sequence[str],
    params: Any,
    config: Any,
    optimizer: str,
    rate: float,
    decay: float,
    compiled: bool,
) -> tuple[Step, list[Tensor]]:
    """Return a step by a loss, and the updated parameters.

    Args:
        loss: function of the decayed parameters, the others, in their order here, what is read, and the next words.
        decayed: names of parameters that decay.
        others: names of those that do not.
        params: those of jaxlm.
        config: likewise.
        optimizer: as in `updates`, as are rate and decay.
        compiled: whether to compile the loss by `torch.compile`.
    """
    moved = [[parameter(getattr(params, name)) for name in names] for names in (decayed, others)]
    forward, given = torch.compile(loss) if compiled else loss, [*moved[0], *moved[1]]
    return step_by(updates(optimizer, rate, decay, *moved), lambda *batch: forward(*given, *batch)), given
