"""The training step of the factored RBM in PyTorch (CD-1), written as a PyTorch user would write it."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding, softplus


def make_step(
    arrays: Sequence[np.ndarray], optimizer: str, rate: float, decay: float, compiled: bool
) -> tuple[Callable[[np.ndarray, np.ndarray], None], list[Tensor]]:
    """Return `step(contexts int[B, c], words int[B])`, one step of the mean of CD-1, and what it moves.

    arrays: R, W, b_h and b_v; optimizer: sgd | adam, with decay on all but the biases (for Adam decoupled).
    """
    R, W, b_h, b_v = (torch.tensor(x).requires_grad_() for x in arrays)
    groups = [
        {"params": [R, W], "weight_decay": decay},
        {"params": [b_h, b_v], "weight_decay": 0.0},
    ]
    update: torch.optim.Optimizer
    update = torch.optim.AdamW(groups, lr=rate) if optimizer == "adam" else torch.optim.SGD(groups, lr=rate)

    def loss(R: Tensor, W: Tensor, b_h: Tensor, b_v: Tensor, contexts: Tensor, words: Tensor) -> Tensor:
        a = torch.addmm(b_h, embedding(contexts, R).flatten(1), W[:-1].flatten(0, 1))

        def free_energy(word: Tensor) -> Tensor:
            return -softplus(a + embedding(word, R) @ W[-1]).sum(1) - b_v[word]

        with torch.no_grad():
            h = torch.bernoulli(torch.sigmoid(a + embedding(words, R) @ W[-1]))
            logits = torch.addmm(b_v, h @ W[-1].T, R.T)
            # by inversion: torch.multinomial takes a random number for each word, and a step 2.7 times as long
            sums = torch.softmax(logits, 1).cumsum(1)
            sample = torch.searchsorted(sums, sums[:, -1:] * torch.rand(len(words), 1))[:, 0]
        return (free_energy(words) - free_energy(sample)).mean()

    forward = torch.compile(loss) if compiled else loss

    def step(contexts: np.ndarray, words: np.ndarray) -> None:
        update.zero_grad(set_to_none=True)
        forward(R, W, b_h, b_v, torch.from_numpy(contexts), torch.from_numpy(words)).backward()
        update.step()

    return step, [R, W, b_h, b_v]
