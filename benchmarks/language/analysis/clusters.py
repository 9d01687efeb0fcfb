"""Whether words of a kind lie together: days of the week and months, which the thesis finds in compact clusters."""

import numpy as np

from benchmarks.core.verdict import Scores
from benchmarks.language.analysis.embedding import vectors, words_of
from benchmarks.language.store import LanguageStore, Spec
from jaxlm.tasks.neighbours import near

KINDS = {
    "days of the week": ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
    "months": (
        "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
        "december",
    ),
}  # fmt: skip
LEAST = 4  # minimum number of words of a kind


def among_their_kind(store: LanguageStore, spec: Spec, which: str, kind: str) -> Scores | None:
    """Measure which share of the nearest words of each word of a kind is of the same kind.

    For n words of a kind, the n - 1 nearest words of each are taken, so that the share is 1 if all lie together.

    Args:
        store: of the model.
        spec: a model that has feature vectors.
        which: the words to search, as in `words_of`.
        kind: a key of KINDS; the case of words is ignored.

    Returns:
        The shares, whose units are the words; None where fewer than LEAST of the kind are among the words.
    """
    ids = words_of(store, which)
    found = np.array([store.corpus.vocabulary.words[i].lower() in KINDS[kind] for i in ids])
    size = int(found.sum())
    if size < LEAST:
        return None
    of_kind = near(vectors(store, spec)[ids], size - 1)[found][:, found]
    return Scores(of_kind.sum(axis=1) / (size - 1), np.ones(size), np.positive)
