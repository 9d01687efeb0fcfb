"""The training step of a recurrent network in PyTorch, by its own layers, as a PyTorch user would write it.

PyTorch has no sigmoid RNN: its tanh RNN, whose step costs the same, stands in for it.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.speed.peers.torch_step import Step, device, step_by, updates

LAYERS: dict[int, type[nn.RNNBase]] = {1: nn.RNN, 3: nn.GRU, 4: nn.LSTM}  # by their number of gates


class Network(nn.Module):
    """Word vectors, layers of cells and the output, with the parameters of jaxlm's network, not tied."""

    def __init__(self, params: Any, config: Any) -> None:
        """Copy the parameters."""
        super().__init__()
        self.words = nn.Embedding.from_pretrained(torch.tensor(np.asarray(params.R)), freeze=False)
        layers = LAYERS[len(config.cell.gates)]
        self.cells = layers(config.num_features, config.num_hidden, config.num_layers, batch_first=True)
        for layer, of_cell in enumerate(params.cells):
            for side in "ih":
                parts = [of_cell[f"{side}{gate}"] for gate in config.cell.gates]
                weights = np.concatenate([np.asarray(part["kernel"]).T for part in parts])
                biases = np.concatenate([np.asarray(part.get("bias", np.zeros(config.num_hidden))) for part in parts])
                getattr(self.cells, f"weight_{side}h_l{layer}").data = torch.tensor(weights)
                getattr(self.cells, f"bias_{side}h_l{layer}").data = torch.tensor(biases, dtype=torch.float32)
        self.output = nn.Linear(config.num_hidden, config.num_words)
        self.output.weight.data, self.output.bias.data = (torch.tensor(np.asarray(x)) for x in (params.U, params.b))

    def forward(self, before: Tensor, words: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Return the mean cross-entropy of windows, int[B, T] each, and the state after them."""
        units, state = self.cells(self.words(before), state)
        return cross_entropy(self.output(units.flatten(0, 1)), words.flatten()), state


def make_step(
    params: Any, config: Any, optimizer: str, rate: float, decay: float, compiled: bool
) -> tuple[Step, list[Tensor]]:
    """Return a step on windows of words and the words before them, int[B, T], and the updated parameters.

    The state is carried on from the step before.

    Args:
        params, config: those of jaxlm.
        optimizer, rate, decay: as in `torch_step.updates`.
        compiled: whether to compile the loss by `torch.compile`.
    """
    network = Network(params, config).to(device())
    bias = network.output.bias
    weights = [p for p in network.parameters() if p is not bias]
    forward = torch.compile(network) if compiled else network
    carried: Any = None

    def loss(before: Tensor, words: Tensor) -> Tensor:
        nonlocal carried
        mean, state = forward(before, words, carried)
        carried = tuple(s.detach() for s in state) if isinstance(state, tuple) else state.detach()
        return mean

    return step_by(updates(optimizer, rate, decay, weights, [bias]), loss), [*weights, bias]
