"""Minibatches of nearly equal cost, of examples of unequal size, so that one capacity serves all with little padding.

Minibatches are formed in windows of consecutive examples of a random order: from the largest example of a window to
the smallest, each goes to the minibatch that has the least so far and is not full (LPT, Graham 1969). Which examples
share a minibatch is therefore drawn anew in each epoch.
"""

from heapq import heappop, heapreplace

import numpy as np

WINDOW = 64  # most minibatches that are formed at once


def balanced(costs: np.ndarray, order: np.ndarray, batch_size: int) -> np.ndarray:
    """Return an order whose minibatches have nearly equal sums of costs.

    Args:
        costs: int[N], of each example.
        order: int32[N], the examples in random order.
        batch_size: examples of a minibatch. Those that do not fill one are the last.

    Returns:
        int32[N]. Equal parts of a minibatch have examples of all sizes, for shards.
    """
    steps, left = divmod(len(order), batch_size)
    cut = len(order) - left - min(steps, WINDOW) * batch_size  # examples left over are taken from the last minibatches
    of_last, rest = _taken(costs, order[cut:], left)
    order = np.concatenate([order[:cut], of_last])
    number = max(1, -(-steps // WINDOW))  # of windows, of nearly equal length
    windows = np.split(order, [steps * n // number * batch_size for n in range(1, number)])
    return np.concatenate([*(_formed(costs, window, batch_size) for window in windows), rest])


def _taken(costs: np.ndarray, examples: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Take `number` examples, evenly spaced in the order of cost: what remains, in its order, and what was taken."""
    by_cost = np.argsort(costs[examples], kind="stable")
    chosen = np.zeros(len(examples), bool)
    chosen[by_cost[(2 * np.arange(number) + 1) * len(examples) // (2 * max(number, 1))]] = True
    return examples[~chosen], examples[chosen]


def _formed(costs: np.ndarray, examples: np.ndarray, batch_size: int) -> np.ndarray:
    """Form whole minibatches: int32[minibatches * batch_size] -> the same, rearranged."""
    number = len(examples) // batch_size
    largest_first = np.argsort(-costs[examples].astype(np.int64), kind="stable")
    least, chosen = list(range(number)), []  # of each minibatch that is not full, its sum * number + its index
    left = [batch_size] * number
    for added in (costs[examples[largest_first]].astype(np.int64) * number).tolist():
        chosen.append(minibatch := least[0] % number)
        left[minibatch] -= 1
        if left[minibatch]:
            heapreplace(least, least[0] + added)
        else:
            heappop(least)
    members = largest_first[np.argsort(chosen, kind="stable")].reshape(number, batch_size)
    members = members[np.argsort(members[:, 0])]  # in the order of their largest examples, which is random
    return examples[members[:, _spread(batch_size)]].ravel()


def _spread(number: int) -> np.ndarray:
    """Return 0 … number - 1 in the order of their bits in reverse: neighbours are far apart."""
    bits = max(1, int(number - 1).bit_length())
    return np.array(sorted(range(number), key=lambda index: f"{index:0{bits}b}"[::-1]), np.int64)
