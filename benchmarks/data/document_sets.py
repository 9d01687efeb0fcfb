"""Collections of documents: published ones, and a synthetic one."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from jaxlm.data.documents import parsing
from jaxlm.data.documents.collection import DocumentCorpus, Documents, content_sha256, counted
from jaxlm.data.documents.options import DocumentReading
from jaxlm.data.documents.reading import in_vocabulary
from jaxlm.data.vocabulary import Vocabulary

VALIDATION = 1000  # documents, which Lauly et al. take from the training documents at random (§6.1)
READING = DocumentReading(format="counts", first_id=1, log_counts=True)


def newsgroups(paths: list[Path], sha256: str, note: str, log_counts: bool = True) -> DocumentCorpus:
    """Read 20 Newsgroups as bags of 2,000 words: training, test, vocabulary.

    Args:
        log_counts: whether counts are replaced by log(1 + n), as published (§6), or stay as they are.
    """
    name, reading = "20news" if log_counts else "20news-counts", replace(READING, log_counts=log_counts)
    words = [line.split()[0] for line in paths[2].read_text(encoding="utf-8").splitlines()]
    vocabulary = Vocabulary(tuple(words))
    train, test = (
        in_vocabulary(parsing.read([str(path)], reading), vocabulary, reading, strict=True)[0] for path in paths[:2]
    )
    return DocumentCorpus(name, *held_out(train), test, vocabulary, sha256, note, reading)


def held_out(train: Documents) -> tuple[Documents, Documents]:
    """Split VALIDATION random documents off the training documents; return the remaining ones and those."""
    order = np.random.default_rng(0).permutation(len(train))
    valid, rest = (train.take(np.sort(part)) for part in (order[:VALIDATION], order[VALIDATION:]))
    return rest, valid


def planted(sizes: tuple[int, int, int], num_words: int = 40, num_topics: int = 4) -> DocumentCorpus:
    """Draw synthetic documents: most words of a document are of one topic, which is its label."""
    draws = np.random.default_rng(0)
    topics = draws.dirichlet(np.full(num_words, 0.1), num_topics)

    def documents(number: int) -> Documents:
        kinds = draws.integers(num_topics, size=number)
        mixed = 0.9 * np.eye(num_topics)[kinds] + 0.1 / num_topics
        rows = np.stack([draws.multinomial(draws.integers(5, 25), p @ topics) for p in mixed])
        document, word = np.nonzero(rows)
        table = counted(document, word, (number, num_words), rows[document, word])
        return Documents(table, tuple((str(kind),) for kind in kinds))

    train, valid, test = map(documents, sizes)
    words = Vocabulary(tuple(f"w{i}" for i in range(num_words)))
    note = f"{num_topics} planted topics"
    return DocumentCorpus("planted", train, valid, test, words, content_sha256(train, valid, words), note)
