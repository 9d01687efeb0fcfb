"""Reuters-21578: its SGML, its split, its words; on a few stories of our own, and on the real ones."""

import hashlib
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from benchmarks.core.verdict import Scores
from benchmarks.data import document_sets, reuters, sets
from benchmarks.documents import retrieval, scales
from benchmarks.documents.store import DocumentStore
from jaxfit.errors import UserError

HEAD = '<!DOCTYPE lewis SYSTEM "lewis.dtd">\n'


def story(text, topics=(), split="TRAIN", flag="YES", kind=""):
    marked = "".join(f"<D>{topic}</D>" for topic in topics)
    return (
        f'<REUTERS TOPICS="{flag}" LEWISSPLIT="{split}" CGISPLIT="TRAINING-SET" OLDID="7" NEWID="1">\n'
        f"<DATE> 1-APR-1987 10:00:00.00</DATE>\n<TOPICS>{marked}</TOPICS>\n<PLACES><D>peru</D></PLACES>\n"
        f"<UNKNOWN> \n&#5;&#5;&#5;C\n&#22;&#22;&#1;f0001&#31;reute\n</UNKNOWN>\n<TEXT{kind}>&#2;\n"
        f"{text}</TEXT>\n</REUTERS>\n"
    )


def whole(title, body):
    return (
        f"<AUTHOR>    By Jane Roe</AUTHOR>\n<TITLE>{title}</TITLE>\n<DATELINE>    LIMA, April 1 - </DATELINE>"
        f"<BODY>{body}\n Reuter\n&#3;</BODY>"
    )


PAGES = {
    "reut2-000.sgm": HEAD
    + story(
        whole("Tin &lt;TIN> exports", "Exporting tin,\nthe ex&#127;ports rose.    AT&amp;T caf\xe9"), ["tin", "trade"]
    )
    + story("\n******<TITLE>Copper falls\n</TITLE>Blah blah blah.\n\n&#3;", ["copper"], kind=' TYPE="BRIEF"')
    + story("Copper table&#3;\n copper 1 2 3 ", kind=' TYPE="UNPROC"')
    + story(whole("Unused", "Not used."), ["tin"], "NOT-USED"),
    "reut2-001.sgm": HEAD
    + story(whole("Corrected", "Topics came later."), ["gold"], flag="NO")
    + story(whole("Bypassed", "Passed by."), flag="BYPASS")
    + story(whole("Tin", "Tin tin tin tin copper"), ["tin", "copper", "tin"], "TEST")
    + story(whole("Nothing", "Silence"), split="TEST")
    + story(whole("Gold", "Gold copper"), ["gold"], "TEST"),
}


def pack(pages, folder=""):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, page in reversed(pages.items()):
            info = tarfile.TarInfo(f"{folder}{name}")
            content = page.encode("latin-1")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


@pytest.fixture
def ours(monkeypatch, tmp_path):
    """Make a folder of data sets with these stories as Reuters-21578."""
    digests = b"".join(hashlib.sha256(page.encode("latin-1")).digest() for page in PAGES.values())
    monkeypatch.setattr(reuters, "SGML", hashlib.sha256(digests).hexdigest())
    monkeypatch.setattr(document_sets, "VALIDATION", 1)
    (tmp_path / "reuters-21578").mkdir()
    return tmp_path


def test_stories_of_the_split_are_read_without_control_characters_and_other_elements():
    found = [each for page in PAGES.values() for each in reuters.stories(page)]
    assert [(each.split, each.topics) for each in found] == [
        ("TRAIN", ("tin", "trade")), ("TRAIN", ("copper",)), ("TRAIN", ()),
        ("TEST", ("tin", "copper")), ("TEST", ()), ("TEST", ("gold",)),
    ]  # fmt: skip
    first, brief, unprocessed, *_ = (each.text.split() for each in found)
    assert first == [
        "Tin",
        "<TIN>",
        "exports",
        "Exporting",
        "tin,",
        "the",
        "exports",
        "rose.",
        "AT&T",
        "café",
        "Reuter",
    ]
    assert brief == ["******", "Copper", "falls", "Blah", "blah", "blah."]
    assert unprocessed == ["Copper", "table", "copper", "1", "2", "3"]


def test_words_are_stems_of_letters_without_stop_words():
    assert reuters.words("The Exporting exports, exported: 42 u.s. COMPANIES' said.\n Reuter") == [
        "export", "export", "export", "compani", "said",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["reuters21578.tar.gz", "reuters21578-sgm.tar.gz"])
def test_an_archive_is_read_as_bags_of_words_with_all_topics(ours, name):
    more = {"README.txt": "not SGML", **PAGES}
    (ours / "reuters-21578" / name).write_bytes(pack(more, "./"))
    corpus = sets.load("reuters", ours)
    assert corpus.name == "reuters"
    assert corpus.sizes()["documents"] == {"train": 2, "valid": 1, "test": 3}
    # by their counts in all of the 3 training stories, before logarithms, and then by name
    assert corpus.vocabulary.words == ("copper", "export", "tin", "caf", "fall", "rose", "tabl")
    np.testing.assert_array_equal(corpus.vocabulary.counts, corpus.train.counts.sum(axis=0))
    assert corpus.test.labels == (("tin", "copper"), (), ("gold",))
    counts = corpus.test.counts.toarray()
    assert counts[0].tolist() == [1, 0, round(np.log1p(5)), 0, 0, 0, 0]
    assert counts[1].tolist() == [0] * 7, "it is kept without words"
    assert "ModApte" in corpus.note


def test_the_baseline_of_retrieval_takes_one_logarithm_of_counts(ours, monkeypatch):
    """Its vectors' products with those of training stories, all of whose directions are kept, are TF-IDF by hand."""
    (ours / "reuters-21578" / "reuters21578.tar.gz").write_bytes(pack(PAGES))
    monkeypatch.delenv(sets.VARIABLE, raising=False)
    store = DocumentStore.open("tiny", "reuters", ours, "tuned", ours / "work")
    assert (store.counted.name, store.counted.vocabulary.words) == ("reuters-counts", store.corpus.vocabulary.words)
    train, test = (part.counts.toarray() for part in (store.counted.train, store.counted.test))
    assert (test.max(), store.corpus.test.counts.max()) == (5, round(np.log1p(5)))
    idf = 1 + np.log((1 + len(train)) / (1 + (train > 0).sum(axis=0)))
    of_test, of_train = (np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0) * idf for counts in (test, train))
    expected = of_test[0] @ of_train.T / np.linalg.norm(of_test[0]) / np.linalg.norm(of_train, axis=1)
    monkeypatch.setattr(retrieval, "_scores", lambda store, part, vectors, seeded: vectors)
    queries, database = retrieval._baseline(2, store, (), "test")
    np.testing.assert_allclose(queries[0] @ database[: len(train)].T, expected, atol=1e-6)


def test_other_stories_and_damaged_archives_are_refused(ours):
    path = ours / "reuters-21578" / "reuters21578.tar.gz"
    path.write_bytes(pack(dict(list(PAGES.items())[:1])))
    with pytest.raises(UserError, match="not the 22 files of Reuters-21578: 1 files of other content"):
        sets.load("reuters", ours)
    path.write_bytes(pack(PAGES)[:-200])
    with pytest.raises(UserError, match="the archive cannot be read"):
        sets.load("reuters", ours)


def test_stories_without_topics_are_no_queries_and_wrong_answers(ours):
    (ours / "reuters-21578" / "reuters21578.tar.gz").write_bytes(pack(PAGES))
    store = DocumentStore(sets.load("reuters", ours), scales.SCALES["tiny"], "tuned", ours)
    _, database = retrieval._parts(store, "test")
    assert sorted(database.labels) == [(), ("copper",), ("tin", "trade")]
    vectors = {(): [1.0, 0.0, 0.1], ("copper",): [1.0, 0.1, 0.0], ("tin", "trade"): [0.0, 1.0, 0.0]}
    of_queries = np.array([[1.0, 0.0, 0.2], [1.0, 0.0, 0.2], [1.0, 0.0, 0.2]])
    scores = retrieval._scores(
        store, "test", [of_queries, np.array([vectors[each] for each in database.labels])], False
    )
    found = scores["recall 100 %"]
    assert isinstance(found, Scores)
    # one query: of the others, one has no topic, and one a topic of no story of the database
    np.testing.assert_allclose(found.total, [(1 / 2 + 1 / 3) / 2])


def test_the_real_stories(data_dir: Path) -> None:
    """Counts of the README's split, and known ones: topics, and stories of the test, that training has topics of."""
    corpus = sets.load("reuters", data_dir)
    assert corpus.sizes()["documents"] == {"train": 9603 - 1000, "valid": 1000, "test": 3299}
    parts = corpus.train, corpus.valid, corpus.test
    assert all(part.lengths.min() > 0 for part in parts)
    *training, test = ([topic for topics in part.labels for topic in topics] for part in parts)
    known = {topic for topics in training for topic in topics}
    assert len(known & set(test)) == 90
    assert sum(bool(known & set(topics)) for topics in corpus.test.labels) == 3019
    assert sum(not topics for part in parts for topics in part.labels) == 2108
    assert len(corpus.vocabulary) == 2000
    assert {"compani", "oil", "dlr"} < set(corpus.vocabulary.words)
    assert not {"the", "blah", "lt"} & set(corpus.vocabulary.words)
