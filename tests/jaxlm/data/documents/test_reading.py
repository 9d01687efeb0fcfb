"""Files of documents, against scikit-learn's reader and counts by hand; a mistake is one line that says where."""

from collections import Counter
from io import BytesIO

import numpy as np
import pytest

from jaxfit.errors import UserError
from jaxlm.data import user_text
from jaxlm.data.documents.collection import Documents, of_lines
from jaxlm.data.documents.options import DocumentReading
from jaxlm.data.documents.reading import encode, from_files, split_validation

COUNTS = "1 3:1 1:2\n# a comment\n2,5 2:1 # another\n\n7\n3:4 4:1.0 1:0\n"


def write(folder, name, text):
    path = folder / name
    path.write_text(text)
    return str(path)


def read(folder, text, carve=False, **more):
    return from_files([write(folder, "train.txt", text)], carve=carve, **more)


def dense(documents: Documents):
    return documents.counts.toarray().tolist()


def test_counts_have_ids_in_any_order_labels_comments_and_empty_documents(tmp_path):
    corpus = read(tmp_path, COUNTS).corpus
    assert dense(corpus.train) == [[2, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 4, 1]]
    assert corpus.train.labels == (("1",), ("2", "5"), (), ("7",), ())
    assert corpus.vocabulary.words == ("1", "2", "3", "4")
    assert corpus.reading.format == "counts"
    assert corpus.reading.first_id == 1
    assert corpus.word_counts().tolist() == [2, 1, 5, 1] == corpus.vocabulary.counts.tolist()
    assert corpus.train.lengths.tolist() == [3, 1, 0, 0, 5]
    assert len(corpus.train.with_words()) == 3


@pytest.mark.parametrize(("label", "encoding"), [("C#", "utf-8"), ("caf\xe9", "latin-1"), ("1", "utf-16")])
def test_a_label_of_counts_keeps_its_characters(label, encoding, tmp_path):
    path = tmp_path / "train.txt"
    path.write_text(f"{label} 1:2 2:1 # 3:1\n#1:1\nb 3:1\n", encoding)
    corpus = from_files([str(path)], reading=DocumentReading(encoding=encoding), carve=False).corpus
    assert (corpus.train.labels, dense(corpus.train)) == (((label,), ("b",)), [[2, 1, 0], [0, 0, 1]])


def test_a_byte_order_mark_is_no_part_of_the_first_field(tmp_path):
    corpus = read(tmp_path, "\ufeff1:2\n2:1 3:1\n").corpus
    assert (corpus.reading.format, dense(corpus.train)) == ("counts", [[2, 0, 0], [0, 1, 1]])


def test_the_error_of_a_list_of_words_in_another_encoding_asks_for_utf_8(tmp_path):
    (tmp_path / "words").write_bytes("caf\xe9\nb\n".encode("latin-1"))
    with pytest.raises(UserError, match=r"not valid utf-8 \(.*words, .*\) - write the list in utf-8"):
        read(tmp_path, "a b a b\n", vocabulary=str(tmp_path / "words"))


def test_files_of_svmlight_are_read_as_scikit_learn_reads_them(tmp_path):
    datasets = pytest.importorskip("sklearn.datasets")
    rng = np.random.default_rng(0)
    X, y = rng.poisson(0.5, (30, 12)), rng.integers(0, 5, 30)
    X[0, [0, -1]] = 1
    for zero_based in (True, False):
        buffer = BytesIO()
        datasets.dump_svmlight_file(X, y, buffer, zero_based=zero_based, query_id=y, comment="made")
        corpus = read(tmp_path, buffer.getvalue().decode()).corpus
        buffer.seek(0)
        expected, labels = datasets.load_svmlight_file(buffer)
        np.testing.assert_array_equal(corpus.train.counts.toarray(), expected.toarray())
        assert [float(label) for (label,) in corpus.train.labels] == labels.tolist()
        assert corpus.reading.first_id == (not zero_based)


def test_a_vocabulary_names_the_words_of_counts_by_its_lines(tmp_path):
    names = write(tmp_path, "vocab.new", "who 10\nout 7\nwhich 3\nwant 2\nnever 0\n")
    corpus = read(tmp_path, COUNTS, vocabulary=names).corpus
    assert corpus.vocabulary.words == ("who", "out", "which", "want", "never")
    assert corpus.vocabulary.counts.tolist() == [2, 1, 5, 1, 0]


def test_counts_are_replaced_by_rounded_logarithms(tmp_path):
    text = "".join(f"1 1:{n} 2:1\n" for n in range(1, 60))
    corpus = read(tmp_path, text, reading=DocumentReading(log_counts=True)).corpus
    assert corpus.train.counts.toarray()[:, 0].tolist() == [round(np.log(1 + n)) for n in range(1, 60)]


def test_texts_lose_rare_words_and_stop_words(tmp_path):
    text = "the cat sat\nthe dog the cat\n\nthe <unk> sat\n"
    stop = write(tmp_path, "stop.txt", "The\n")
    lower = DocumentReading(format="text", lower=True)
    assert read(tmp_path, "The the a a b b\n", stop_words=stop, reading=lower).corpus.vocabulary.words == ("a", "b")
    stop = write(tmp_path, "stop.txt", ",\nThe\n")
    marks = DocumentReading(format="text", lower=True, punctuation=True)
    assert read(tmp_path, "The, the a, a b b\n", stop_words=stop, reading=marks).corpus.vocabulary.words == ("a", "b")
    stop = write(tmp_path, "stop.txt", "the\n")
    found = read(tmp_path, text, stop_words=stop)
    assert found.corpus.vocabulary.words == ("cat", "sat")
    assert dense(found.corpus.train) == [[1, 1], [1, 0], [0, 0], [0, 1]]
    assert found.unknown["train"] == 6  # four times `the`, and `dog` and `<unk>` once
    assert read(tmp_path, text, size=2).corpus.vocabulary.words == ("the", "cat")
    assert read(tmp_path, text, min_count=1).corpus.vocabulary.words == ("the", "cat", "sat", "dog")
    given = write(tmp_path, "words.txt", "dog\ncat\n")
    assert dense(read(tmp_path, text, vocabulary=given).corpus.train) == [[0, 1], [1, 1], [0, 0], [0, 0]]


def test_labels_of_texts_stand_before_a_tab_and_are_not_prepared(tmp_path):
    reading = DocumentReading(labelled=True, lower=True, numbers=True)
    corpus = read(tmp_path, "Earn,C 15\tUp 15 up\n\n\tDown down up 3\n \n", reading=reading).corpus
    assert corpus.train.labels == (("Earn", "C 15"), (), (), ())
    assert corpus.vocabulary.words == ("up", "N", "down")
    assert dense(corpus.train) == [[2, 1, 0], [0, 0, 0], [1, 1, 2], [0, 0, 0]]


def test_documents_of_a_text_are_its_lines(tmp_path):
    text = "b a b c\nd d a\n\nc c e b\n"
    lines = of_lines(user_text.from_files([write(tmp_path, "lines.txt", text)], carve=False).corpus)
    corpus = read(tmp_path, text).corpus
    assert dense(lines.train) == dense(corpus.train)
    assert lines.vocabulary.words == corpus.vocabulary.words
    assert lines.sha256 == corpus.sha256
    of_words = [Counter(line.split()) for line in text.splitlines()]
    assert dense(corpus.train) == [[count[word] for word in corpus.vocabulary.words] for count in of_words]


def test_documents_given_to_a_model_are_read_as_its_training_documents(tmp_path):
    names = write(tmp_path, "vocab", "w0\nw1\nw2\n")
    corpus = read(tmp_path, "1 0:3 2:1\n2 1:1\n", vocabulary=names, reading=DocumentReading(log_counts=True)).corpus
    documents, unknown = encode([write(tmp_path, "t", "4 2:5 7:2\n9 7:1\n")], corpus.vocabulary, corpus.reading)
    assert dense(documents) == [[0, 0, 2], [0, 0, 0]]
    assert unknown == 2, "by log(1 + n), as the others"
    with pytest.raises(UserError, match="no word of the documents is in the model's vocabulary"):
        encode([write(tmp_path, "t", "9 7:1\n")], corpus.vocabulary, corpus.reading)


def test_validation_is_drawn_from_training_documents_if_none_is_given(tmp_path):
    found = read(tmp_path, "".join(f"{n} 1:{n} 2:1\n" for n in range(1, 101)), carve=True)
    corpus = found.corpus
    assert (len(corpus.train), len(corpus.valid)) == (95, 5)
    labels = sorted(int(label) for part in (corpus.train, corpus.valid) for (label,) in part.labels)
    assert labels == list(range(1, 101))
    assert np.ptp([int(label) for (label,) in corpus.valid.labels]) > 20, "neither the first ones nor the last"
    assert "5 training documents, drawn at random" in found.notes[-1]
    with pytest.raises(UserError, match="too few"):
        split_validation(corpus.train.take([0]))


def test_unknown_words_of_documents_drawn_for_validation_are_counted_there(tmp_path):
    lines = [f"a b once{number}\n" for number in range(40)]
    assert read(tmp_path, "".join(lines), carve=True).unknown == {"train": 38, "valid": 2, "test": 0}


@pytest.mark.parametrize("blank", range(10))
def test_validation_is_drawn_from_documents_with_words(tmp_path, blank):
    lines = ["1 1:1 2:1\n"] * 10
    lines[blank] = "\n"
    corpus = read(tmp_path, "".join(lines), carve=True).corpus
    assert corpus.valid.lengths.tolist() == [2]


def test_validation_documents_need_words_of_the_vocabulary(tmp_path):
    for content in ("zz yy\n", "\n"):
        valid = write(tmp_path, "valid.txt", content)
        with pytest.raises(UserError, match=r"no word of the validation documents .*valid\.txt"):
            read(tmp_path, "a b c\nb a c\n", valid=[valid], reading=DocumentReading(format="text"))


BAD = {
    "1 2:1 3\n": (1, "'3' is not the number of a word and how often it occurs"),
    "1 2:1\n2 3:1.5\n": (2, "'3:1.5' is not"),
    "1 2:1\n\n2 3:-1\n": (3, "'3:-1' is not"),
    "1 2:1\n2 x:1\n": (2, "'x:1' is not"),
    "1 2:1\n2 3:1 4:1 3:2\n": (2, "word 3 is there twice"),
    "1 2:1\n2 9999999999:1\n": (2, "too large"),
    "1 2:1\n1 7:1\n": (2, "word 7, and the words have the numbers 1 to 3"),
}


@pytest.mark.parametrize("text", BAD, ids=repr)
def test_a_bad_line_is_an_error_that_names_it(text, tmp_path):
    line, what = BAD[text]
    names = write(tmp_path, "vocab", "a\nb\nc\n")
    with pytest.raises(UserError, match=rf"train.txt, line {line}\)") as error:
        read(tmp_path, text, vocabulary=names)
    assert what in str(error.value)


def test_a_word_before_the_first_is_an_error(tmp_path):
    train, test = write(tmp_path, "train.txt", "1 1:1 2:1\n"), write(tmp_path, "test.txt", "1 1:1\n2 0:1\n")
    with pytest.raises(UserError, match=r"word 0, and the words have the numbers 1 to 2 \(.*test.txt, line 2\)"):
        from_files([train], test=[test], carve=False)
    assert from_files([train], test=[test], reading=DocumentReading(first_id=0), carve=False).corpus.test.num_words == 2
    read = from_files([train], valid=[test], carve=False)  # validation has word 0: numbers begin with it
    assert (read.corpus.reading.first_id, read.corpus.valid.num_words) == (0, 2)
    assert "the words' numbers begin with 0; otherwise give --first-id" in read.notes


def test_a_number_far_above_that_of_the_words_names_no_words(tmp_path):
    with pytest.raises(UserError, match=r"word 2147483647, and the documents have 3 .* \(.*train.txt, line 2\)"):
        read(tmp_path, "1 1:1 2:1\n2 1:1 2147483647:1\n")
    corpus = read(tmp_path, "1 1:1 2:1\n2 5:1\n").corpus
    documents, unknown = encode([write(tmp_path, "t", "1 2:3 2147483647:4\n")], corpus.vocabulary, corpus.reading)
    assert (dense(documents), unknown) == ([[0, 3, 0, 0, 0]], 4)


@pytest.mark.parametrize(
    ("text", "more", "said"),
    [
        ("1 1:1 2:1\n", {"size": 5}, r"these are counts \(--vocab-size\)"),
        ("1 1:1 2:1\n", {"stop_words": "s"}, r"these are counts \(--stop-words\) - .*, or give --format text$"),
        ("1 1:1 2:1\n", {"reading": DocumentReading(labelled=True)}, r"these are counts \(--labelled\)"),
        ("a b a b\n", {"reading": DocumentReading(first_id=1)}, r"\(--first-id\) - .*, or give --format counts$"),
        (
            "a b a b\n",
            {"reading": DocumentReading(labelled=True)},
            r"the line has no tab, which ends the labels \(.*line 1\)",
        ),
        ("a a\n", {}, "fewer than two words"),
        ("1 1:3\n", {}, "fewer than two different words"),
        ("1 1:0 2:0\n", {"vocabulary": "a\nb"}, "no word of the training documents"),
        ("\n", {}, "fewer than two"),
        ("a b a b\n", {"valid": ["nothing"]}, "there is no such file"),
        ("a b a b\n", {"vocabulary": "a"}, r"the vocabulary has fewer than two words \(.*vocab\)"),
        ("1 1:2\n", {"vocabulary": "a"}, r"the vocabulary has fewer than two words \(.*vocab\)"),
        ("a b a b\n", {"vocabulary": "a\nb", "stop_words": "s"}, r"the words are those of --vocab \(--stop-words\)"),
        ("a b a b\n", {"vocabulary": "a\nb", "min_count": 2}, r"the words are those of --vocab \(--min-count\)"),
        ("a b a b\n", {"vocabulary": "a\nb", "size": 2}, r"the words are those of --vocab \(--vocab-size\)"),
        ("1 1:2 2:1#3:1\n", {}, r"'2:1#3:1' is not the number of a word .*; begin a comment with a blank and #$"),
        ("a b a b\n", {"vocabulary": "a b c"}, r"the line does not hold exactly one word \(.*, line 1\)"),
        ("a b a b\n", {"vocabulary": "a\nb\na"}, r"duplicate word 'a', first on line 1 \(.*, line 3\)"),
    ],
)
def test_what_cannot_be_read_is_a_mistake_of_one_line(text, more, said, tmp_path):
    if "vocabulary" in more:
        more = {**more, "vocabulary": write(tmp_path, "vocab", more["vocabulary"])}
    with pytest.raises(UserError, match=said):
        read(tmp_path, text, **more)


def test_the_format_of_standard_input_must_be_given():
    with pytest.raises(UserError, match="format of standard input"):
        from_files(["-"])


@pytest.mark.parametrize("line", ["447:1 12:2", "3 1:0.5 2:0.25", "a,b 3:1 # x", "1 qid:3 2:1"])
def test_counts_are_recognised(line, tmp_path):
    try:
        found = read(tmp_path, f"\n# made\n{line} 1:2\n").corpus.reading.format
    except UserError as error:
        found = "counts" if "is not the number of a word" in str(error) else None
    assert found == "counts"


@pytest.mark.parametrize("labels", ["b", "1,2", "1 # without words"])
def test_counts_are_recognised_behind_documents_without_words(labels, tmp_path):
    corpus = read(tmp_path, f"{labels}\n\n7 1:2 2:1\n").corpus
    assert (corpus.reading.format, dense(corpus.train)) == ("counts", [[0, 0], [0, 0], [2, 1]])


def test_a_blank_line_of_counts_is_a_document_as_it_is_in_texts(tmp_path):
    """So that vectors are in the order of a file's lines, as far as none is a comment alone."""
    reading = DocumentReading(format="counts", first_id=1)
    vocabulary = read(tmp_path, "1:1 2:1\n").corpus.vocabulary
    documents, _ = encode([write(tmp_path, "t", "1:1\n\n# none\n2:1\n")], vocabulary, reading)
    assert dense(documents) == [[1, 0], [0, 0], [0, 1]]


def test_a_text_that_looks_like_counts_is_told_how_to_be_read(tmp_path):
    text = "meeting 10:30\nthe words of a text\n"
    with pytest.raises(UserError, match=r"'words' is not .*line 2\) - .* with --format text"):
        read(tmp_path, text)
    assert read(tmp_path, text, reading=DocumentReading(format="text"), min_count=1).corpus.train.num_words == 7


@pytest.mark.parametrize("line", ["at 12:30 we met", "see http://x.org we", "he said: 3 1 4"])
def test_texts_are_recognised(line, tmp_path):
    assert read(tmp_path, f"{line} {line}\n").corpus.reading.format == "text"


def test_the_real_collection_is_as_described(data_dir):
    folder = data_dir / "20news-2000"
    corpus = from_files(
        [str(folder / "train.feat")], test=[str(folder / "test.feat")], vocabulary=str(folder / "vocab.new"),
        carve=False,
    ).corpus  # fmt: skip
    assert corpus.sizes() == {
        "documents": {"train": 11_268, "valid": 0, "test": 7_505},
        "events": {"train": 1_128_881, "valid": 0, "test": 720_898},
    }
    counts = [int(line.split()[1]) for line in (folder / "vocab.new").read_text().splitlines()]
    assert corpus.word_counts().tolist() == counts
    assert {label for labels in corpus.train.labels for label in labels} == {str(n) for n in range(1, 21)}
