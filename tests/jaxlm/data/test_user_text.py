"""A corpus from a user's files: training, validation and test text, vocabulary, large texts on disk."""

import gzip
import io

import numpy as np
import pytest

from jaxfit.errors import UserError
from jaxfit.files.large_arrays import stored_in
from jaxlm.data import default_text, user_text
from jaxlm.data.corpus import reading_of
from jaxlm.data.files import Reading
from jaxlm.data.vocabulary import Vocabulary


@pytest.fixture
def files(tmp_path):
    for name, lines in {
        "train": ["a b c", "a b", "a d", "b c"],
        "valid": ["a z", "<unk>"],
        "test": ["b"],
    }.items():
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def words(corpus_words, ids):
    return " ".join(corpus_words[i] for i in ids)


def test_split_validation_takes_the_last_lines():
    ids = np.array([1, 0, 2, 3, 0, 4, 0, 5, 5, 0], np.int32)
    train, valid = user_text.split_validation(ids, 0, part=2)
    assert train.tolist() == [1, 0, 2, 3, 0]
    assert valid.tolist() == [4, 0, 5, 5, 0]
    train, valid = user_text.split_validation(ids, 0)
    assert valid.tolist() == [5, 5, 0]
    with pytest.raises(UserError, match="too few lines"):
        user_text.split_validation(ids[:2], 0)


@pytest.mark.parametrize("piece", [1, 3, 7])
def test_split_validation_counts_lines_by_pieces(piece, monkeypatch):
    ids = np.random.default_rng(0).integers(0, 4, 400).astype(np.int32)
    ends = np.flatnonzero(ids == 0) + 1
    monkeypatch.setattr(user_text, "CHUNK", piece)
    for part in (2, 20):
        train, valid = user_text.split_validation(ids, 0, part)
        assert len(train) == ends[len(ends) - len(ends) // part - 1]
        np.testing.assert_array_equal(np.concatenate([train, valid]), ids)


def test_all_texts_share_the_training_vocabulary(files):
    texts = user_text.from_files(
        [files / "train.txt"], [files / "valid.txt"], [files / "test.txt"], min_count=2, carve=True
    )
    data = texts.corpus
    assert set(data.vocabulary.words) == {"a", "b", "c", "<eos>", "<unk>"}
    assert words(data.vocabulary.words, data.train) == "a b c <eos> a b <eos> a <unk> <eos> b c <eos>"
    assert words(data.vocabulary.words, data.valid) == "a <unk> <eos> <unk> <eos>"
    assert texts.unknown == {"train": 1, "valid": 1, "test": 0}  # a literal <unk> is not unknown
    assert texts.notes == [
        "1 word seen once becomes <unk> (11.1 % of the words of the training text) - --min-count 1 keeps them",
        "validation text: 66.7 % of its 3 words are in the vocabulary",
    ]
    assert data.describe()["left out of the vocabulary"] == {"words": 1, "occurrences": 1, "rule": "seen once"}
    assert data.name == "train.txt"


def test_validation_is_the_end_of_the_training_text_if_requested(files):
    texts = user_text.from_files([files / "train.txt"], min_count=2)
    assert words(texts.corpus.vocabulary.words, texts.corpus.valid) == "b c <eos>"
    assert len(texts.corpus.train) == 10
    assert "the last 1 lines" in texts.notes[1]
    assert texts.notes[2] == "validation text: 100.0 % of its 2 words are in the vocabulary"
    whole = user_text.from_files([files / "train.txt"], min_count=2, carve=False)
    assert (len(whole.corpus.train), len(whole.corpus.valid), len(whole.notes)) == (13, 0, 1)
    assert whole.corpus.vocabulary.words == texts.corpus.vocabulary.words
    for corpus in (texts.corpus, whole.corpus):
        assert corpus.vocabulary.counts.tolist() == np.bincount(corpus.train, minlength=5).tolist()


@pytest.mark.parametrize("name", ["train.txt", "train.txt.gz", "-"])
def test_large_text_on_disk_equals_text_in_memory(files, monkeypatch, name):
    """Also for gzip and standard input, whose length is known only once they are read."""
    text = (files / "train.txt").read_bytes()
    (files / "train.txt.gz").write_bytes(gzip.compress(text))
    source = name if name == "-" else files / name
    small = user_text.from_files([files / "train.txt"])
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text))))
    with stored_in(files, 5):
        large = user_text.from_files([source])
    assert isinstance(large.corpus.train, np.memmap)
    np.testing.assert_array_equal(large.corpus.train, small.corpus.train)
    assert large.corpus.sha256 == small.corpus.sha256


def test_invalid_large_text_leaves_no_file(files):
    (files / "bad.txt").write_bytes(b"a b\n\xff\n")
    before = sorted(files.iterdir())
    for train, valid in ([["bad.txt"], []], [["train.txt"], ["bad.txt"]]):
        with stored_in(files, 0), pytest.raises(UserError, match="byte offset 4"):
            user_text.from_files([files / name for name in train], [files / name for name in valid])
    assert sorted(files.iterdir()) == before


def test_sha256_does_not_depend_on_the_test_text(files):
    """So that training can be resumed with another test text, or with none."""
    with_test = user_text.from_files([files / "train.txt"], test=[files / "test.txt"])
    assert with_test.corpus.sha256 == user_text.from_files([files / "train.txt"]).corpus.sha256
    other = user_text.from_files([files / "train.txt"], [files / "valid.txt"], min_count=2)
    assert other.corpus.sha256 != with_test.corpus.sha256


def test_given_vocabulary_replaces_the_training_texts_own(files):
    vocabulary = Vocabulary(("<eos>", "b", "q"))
    data, _, notes = user_text.from_files([files / "train.txt"], vocabulary=vocabulary, carve=False)
    assert notes == [
        "3 words besides the given ones become <unk> (66.7 % of the words of the training text)",
        "the given vocabulary has no <unk>: it is added",
    ]
    assert set(data.vocabulary.words) == {"<eos>", "b", "q", "<unk>"}
    assert words(data.vocabulary.words, data.train[:4]) == "<unk> b <unk> <eos>"


WORDS = {
    "own": ("a <unk> b\n", {}, "the training text has its own <unk>: all its other words are kept"),
    "seen once": ("a a b\n", {}, "1 word seen once becomes <unk> (33.3 % of"),
    "seen less often": ("a a a b b\n", {"min_count": 3}, "1 word seen less than 3 times becomes <unk> (40.0 % of"),
    "none seen once": ("a a b b\n", {}, "all words of the training text are kept; <unk> stands for those that other"),
    "every word seen once": ("a b\n", {}, "all words of the training text are kept"),
    "all kept": ("a a b\n", {"min_count": 1}, "all words of the training text are kept"),
    "size": ("a a b b c c c\n", {"size": 4}, "1 word besides the 2 most frequent becomes <unk> (28.6 % of"),
    "closed": ("a a b\n", {"closed": True}, "closed vocabulary: without <unk>, only texts of these 3 words can"),
}


@pytest.mark.parametrize("case", WORDS)
def test_which_words_become_unk_is_said(tmp_path, case):
    text, options, note = WORDS[case]
    (tmp_path / "t").write_text(text)
    corpus, unknown, notes = user_text.from_files([tmp_path / "t"], carve=False, **options)
    assert notes[0].startswith(note)
    assert (corpus.vocabulary.unk is None) == (case == "closed")
    assert corpus.vocabulary.left_out.occurrences == unknown["train"]


def test_a_closed_vocabulary_leaves_out_no_word(files):
    with pytest.raises(UserError, match="a closed vocabulary has all words of the text - give it no size"):
        user_text.from_files([files / "train.txt"], min_count=2, closed=True)
    with pytest.raises(UserError, match="a closed vocabulary has all words of the text - give it no other"):
        user_text.from_files([files / "train.txt"], vocabulary=Vocabulary(("<eos>", "b")), closed=True)
    with pytest.raises(UserError, match=r"unknown word 'z' .* or train without --closed-vocabulary"):
        user_text.from_files([files / "train.txt"], [files / "valid.txt"], closed=True)


def test_standard_input_cannot_be_named_twice(files):
    with pytest.raises(UserError, match="cannot be read twice"):
        user_text.from_files(["-"], ["-"])


def test_default_data_with_a_given_test_text(files):
    texts = default_text.default(test=[files / "test.txt"])
    assert len(texts.corpus.test) == 2
    assert len(texts.corpus.valid) > 1000
    assert "the default data is used" in texts.notes[0]


def test_reading_is_restored_from_a_models_config():
    reading = Reading(lower=True, encoding="latin-1")
    stored = {"corpus": {"reading": {"encoding": "latin-1", "lower": True, "later": 1}}}
    assert reading_of(stored) == reading
    assert reading_of({"model": "arpa"}) == Reading()
