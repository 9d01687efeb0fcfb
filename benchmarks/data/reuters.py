"""Reuters-21578: stories of a news agency and their topics, from the publisher's SGML to bags of words.

Source: Lewis 1997, the collection's README, §VI (its mark-up) and §VIII.B (the split ModApte).
"""

import re
import tempfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from benchmarks.data.archive import contents
from benchmarks.data.document_sets import held_out
from jaxfit.errors import missing_package
from jaxlm.data.documents.collection import DocumentCorpus
from jaxlm.data.documents.options import DocumentReading
from jaxlm.data.documents.reading import from_files

# sha256 over the sha256 of the 22 files' contents in the order of their names: it does not depend on packing
SGML = "c23e9fc7fcde0486e37c0b9801013a41076d41ca2fa9b2cc3a9614040f0c3a56"
NUM_WORDS = 2000
READING = DocumentReading(format="text", labelled=True, log_counts=True)
SPLITS = ("TRAIN", "TEST")  # of ModApte, which takes stories with TOPICS="YES"
OF_STORIES = ("TITLE", "BODY")  # elements within TEXT; the others are AUTHOR and DATELINE
NO_WORDS = {"reuter", "blah"}  # the last word of every body, and what stands in place of a missing one

_WORD = re.compile(r"[a-z]{2,}")
_CONTROL_CHARACTER = re.compile(r"&#\d+;")


class Story(NamedTuple):
    """A story: "TRAIN" or "TEST", its topics, its title and body."""

    split: str
    topics: tuple[str, ...]
    text: str


def stories(page: str) -> Iterator[Story]:
    """Read the stories of the split ModApte from an SGML file.

    Without its first line, the document type, and references to control characters, it is a part of an XML file.
    """
    body = _CONTROL_CHARACTER.sub("", page.partition("\n")[2])
    for story in ElementTree.fromstring(f"<FILE>{body}</FILE>"):
        split, text = story.get("LEWISSPLIT", ""), story.find("TEXT")
        if split in SPLITS and story.get("TOPICS") == "YES" and text is not None:
            topics = dict.fromkeys(topic.text or "" for topic in story.iterfind("TOPICS/D"))
            yield Story(split, tuple(topics), _text(text))


def _text(element: Element) -> str:
    """Return the text of title and body, and what is outside all elements: the whole text of some stories."""
    inside = (f"{_text(child) if child.tag in OF_STORIES else ''} {child.tail or ''}" for child in element)
    return " ".join((element.text or "", *inside))


def words(text: str) -> list[str]:
    """Return the words of a text: of two or more letters, in lower case, without stop words, stemmed.

    Raises:
        UserError: a package is not installed.
    """
    stem, stop_words = _stemming()
    return [stem(word) for word in _WORD.findall(text.lower()) if word not in stop_words]


@cache
def _stemming() -> tuple[Callable[[str], str], Collection[str]]:
    """Return Porter's stemmer, which caches the stems of words, and the stop words."""
    try:
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
        from snowballstemmer import stemmer
    except ImportError as error:
        raise missing_package(str(error.name), "reuters") from None
    return cache(stemmer("porter").stemWord), ENGLISH_STOP_WORDS | NO_WORDS


def documents(paths: list[Path], sha256: str, note: str, log_counts: bool = True) -> DocumentCorpus:
    """Read Reuters-21578 as bags of words, the 2,000 most frequent stems.

    A story has all its topics as labels. All stories are kept, as the README asks for those of the test, so that
    results can be compared. Each has some of the 2,000 stems, which perplexity needs. 2,108 have no topics: in
    retrieval, which needs labels, they are not queries, and are wrong answers to every query.

    Differs: Lauly et al. 2017 (§6) use RCV1-V2, with 10,000 words, and state neither the stop words nor the stemmer.

    Args:
        log_counts: whether counts are replaced by log(1 + n), as published, or stay as they are.

    Raises:
        UserError: the archive is damaged, or not the publisher's; a package is not installed.
    """
    name, reading = "reuters" if log_counts else "reuters-counts", replace(READING, log_counts=log_counts)
    lines: dict[str, list[str]] = {split: [] for split in SPLITS}
    for page in contents(paths[0], ".sgm", SGML, "the 22 files of Reuters-21578"):
        for story in stories(page.decode("latin-1")):
            lines[story.split].append(f"{','.join(story.topics)}\t{' '.join(words(story.text))}\n")
    with tempfile.TemporaryDirectory() as folder:
        train, test = (Path(folder) / split for split in SPLITS)
        for path, split in zip((train, test), SPLITS, strict=True):
            path.write_text("".join(lines[split]), encoding="utf-8")
        whole = from_files([str(train)], test=[str(test)], reading=reading, size=NUM_WORDS, carve=False).corpus
    rest, valid = held_out(whole.train)
    about = (
        f"{note}; split ModApte; title and body, words of two letters or more in lower case, without scikit-learn's "
        "stop words, stemmed by Porter's algorithm; stories without topics are no queries, and wrong answers"
    )
    corpus = whole._replace(name=name, train=rest, valid=valid, sha256=SGML, note=about)
    return corpus._replace(vocabulary=replace(corpus.vocabulary, counts=corpus.word_counts()))
