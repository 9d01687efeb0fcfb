"""How files of documents are read."""

from dataclasses import dataclass
from typing import Literal

from jaxfit.recipe import option
from jaxlm.data.files import Reading


@dataclass(frozen=True)
class DocumentReading(Reading):
    """How files of documents are read; those given to a trained model are read as its training documents were.

    Attributes:
        encoding: of texts and counts, as in `Reading`.
        lower, numbers, punctuation: of texts, as in `Reading`.
    """

    format: Literal["text", "counts"] | None = option(
        None, "a document a line: its words, or `labels id:count id:count …` as in SVMlight's files (default: as the "
        "first line has it)",
    )  # fmt: skip
    labelled: bool = option(False, "texts: each line begins with labels, separated by commas, and a tab")
    first_id: int | None = option(
        None, "counts: number of the vocabulary's first word (default: 0 if training or validation has it, or 1)",
        low=0, high=1,
    )  # fmt: skip
    log_counts: bool = option(False, "replace every count n by log(1 + n), rounded", first=True)
