"""The training step of the log-bilinear model in PyTorch, written as a PyTorch user would write it."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor


def make_step(
    arrays: Sequence[np.ndarray], optimizer: str, rate: float, decay: float, compiled: bool
) -> tuple[Callable[[np.ndarray, np.ndarray], None], list[Tensor]]:
    """Return `step(contexts int[B, c], words int[B])`, one step of mean cross-entropy (Eq. 3.17), and what it moves.

    arrays: R, C and b; optimizer: sgd | adam, with decay on all but the biases (for Adam decoupled).
    """
    R, C, b = (torch.tensor(x).requires_grad_() for x in arrays)
    groups = [
        {"params": [R, C], "weight_decay": decay},
        {"params": [b], "weight_decay": 0.0},
    ]
    update: torch.optim.Optimizer
    update = torch.optim.AdamW(groups, lr=rate) if optimizer == "adam" else torch.optim.SGD(groups, lr=rate)

    def loss(R: Tensor, C: Tensor, b: Tensor, contexts: Tensor, words: Tensor) -> Tensor:
        r_hat = torch.einsum("ijk,bik->bj", C, torch.nn.functional.embedding(contexts, R))
        return torch.nn.functional.cross_entropy(torch.addmm(b, r_hat, R.T), words)

    forward = torch.compile(loss) if compiled else loss

    def step(contexts: np.ndarray, words: np.ndarray) -> None:
        update.zero_grad(set_to_none=True)
        forward(R, C, b, torch.from_numpy(contexts), torch.from_numpy(words)).backward()
        update.step()

    return step, [R, C, b]
