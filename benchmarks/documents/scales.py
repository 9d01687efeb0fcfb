"""The sizes of the benchmarks of documents, and their collections."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.data import document_sets, sets
from benchmarks.language.scales import LanguageScale
from jaxfit.errors import UserError
from jaxlm.data.documents.collection import DocumentCorpus

PLANTED, NEWSGROUPS = "planted", "20news"


@dataclass(frozen=True)
class DocumentScale(LanguageScale):
    """A scale of models of documents: it also shrinks the number of orders of words."""

    orderings: int = 256  # of each test document
    sizes: tuple[int, int, int] = (2000, 500, 500)  # planted documents
    retrieved: tuple[int, ...] = (128, 512)  # features of the vectors by which documents are retrieved


def _sized(features: int) -> tuple[int, int, int, int]:
    return features, features, features, features


_QUICK = {"batch_size": 10, "rate": {"*": 0.03}}
SCALES: Mapping[str, DocumentScale] = {
    scale.name: scale
    for scale in (
        DocumentScale(
            "tiny", "planted documents, for the tests: seconds", PLANTED, _sized(4), seeds=1, orderings=2, epochs=2,
            retrieved=(4,), window=0.01, sizes=(600, 50, 50),
            tuned={"docnade": _QUICK, "deepdocnade": _QUICK, "replicated-softmax": {**_QUICK, "batch_size": 5}},
        ),
        DocumentScale(
            "smoke", "2,000 planted documents: minutes on two cores", PLANTED, _sized(10), orderings=16,
            retrieved=(10, 20),
        ),
        DocumentScale("cpu", "20 Newsgroups: hours on two cores", NEWSGROUPS, _sized(50), orderings=32),
        DocumentScale("full", "20 Newsgroups, as published", NEWSGROUPS, _sized(50)),
    )
}  # fmt: skip


def documents(name: str, scale: DocumentScale, data_dir: Path | None = None) -> DocumentCorpus:
    """Load a collection at this scale."""
    if name == PLANTED:
        return document_sets.planted(scale.sizes)
    return sets.load(name, data_dir)


def speed_documents() -> DocumentCorpus:
    """Load the documents that speed is measured on: 20 Newsgroups if it is there, otherwise planted ones."""
    try:
        return sets.load(NEWSGROUPS, None)
    except UserError as error:
        found = document_sets.planted(SCALES["smoke"].sizes)
        why = f"as there is no 20 Newsgroups ({error.what}; set {sets.VARIABLE})"
        return found._replace(note=f"{found.note}, {why}")
