"""What models that predict a document's words one after another share: their score and probabilities of documents.

The order of the words is drawn, and the probability of a document is averaged over orders (Lauly et al. 2017, Eq. 31).
The perplexity is exp of the mean over documents of -1/D log p(v) (Eq. 30): each document counts equally, whatever its
length, whereas the perplexity of a text is based on a mean over words.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from numpy.typing import NDArray

from jaxfit import fit
from jaxfit.program import Metric
from jaxlm.capabilities import PredictsDocuments
from jaxlm.context_model import perplexity
from jaxlm.data.documents.collection import Documents

if TYPE_CHECKING:
    from jaxlm.trained_model import Model

METRIC = Metric("document perplexity", perplexity, 2)


def of_orderings(model: Model, documents: Documents, seed: int) -> Iterator[NDArray[np.float64]]:
    """Yield log p(v) of each document in one drawn order of its words after another, without end: float64 [documents].

    In nats; 0 for a document without words. The model's program scores a document by -1/D log p(v) in the order of its
    data, which `redraw` draws anew.
    """
    record: Any = model.record
    program = record.fitting.program(model.config)
    found, lengths = np.flatnonzero(documents.lengths), documents.lengths
    data = model.texts()(documents) if len(found) else None
    key, number = jax.random.key(seed), 0
    while True:
        log_p = np.zeros(len(documents))
        if data is not None:
            drawn = program.redraw(data, jax.random.fold_in(key, number), model.config)
            log_p[found] = -fit.scores(program, model.params, drawn).astype(np.float64) * lengths[found]
        yield log_p
        number += 1


def log_mean_exp(values: Iterator[NDArray[np.float64]], number: int) -> NDArray[np.float64]:
    """Return log of the mean of the exponentials of the first `number` arrays, without holding all of them at once."""
    total = next(values)
    for _ in range(number - 1):
        total = np.logaddexp(total, next(values))
    return total - np.log(number)


def predicts_documents() -> PredictsDocuments:
    """Return the capability, for a model whose program scores documents in the order of their data."""
    return PredictsDocuments(
        lambda model, documents, orderings, seed: log_mean_exp(of_orderings(model, documents, seed), orderings),
        averaged="orders of words",
    )
