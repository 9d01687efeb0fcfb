"""ARPA files: written and read again, compared with KenLM, and refused if malformed."""

import gzip
import re
import warnings

import numpy as np
import pytest

import jaxlm
from jaxfit.errors import UserError
from jaxlm.ngram import arpa, good_turing, kneser_ney, unigram

VOCAB_SIZE, EOS = 40, 0
WORDS = ["<eos>", *(f"w{i}" for i in range(1, 39)), "<unk>"]
SMOOTHINGS = {
    "unigram": lambda ids, size, eos, order: unigram.train(ids, size, eos),
    "gt": good_turing.train,
    "kn": kneser_ney.train,
    "kn-backoff": lambda *args: kneser_ney.train(*args, interpolated=False),
}


def train(smoothing: str, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # on small texts discounts may be undefined
        return SMOOTHINGS[smoothing](*args)


def lines(ids: np.ndarray) -> list[str]:
    text = " ".join(WORDS[i] for i in ids.tolist())
    return [line.strip() for line in text.split("<eos>")][:-1]


def line_log10_probs(lm, ids: np.ndarray) -> np.ndarray:
    ends = np.flatnonzero(ids == EOS)
    return np.add.reduceat(lm.event_log_probs(ids), np.append(0, ends[:-1] + 1)) / np.log(10)


@pytest.mark.parametrize("name", ["lm.arpa", "lm.arpa.gz"])
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_written_model_equals_read_model(text, smoothing, name, tmp_path):
    lm = train(smoothing, text, VOCAB_SIZE, EOS, 4)
    arpa.write(lm, WORDS, tmp_path / name)
    again, words = arpa.read(tmp_path / name)
    assert words == tuple(WORDS)
    assert (again.vocab_size, again.eos, again.order) == (VOCAB_SIZE, EOS, lm.order)
    for written, read in zip(lm.tables, again.tables, strict=True):
        np.testing.assert_array_equal(written.keys, read.keys)
        np.testing.assert_allclose(read.log_prob, written.log_prob, rtol=1e-6)
        np.testing.assert_allclose(read.log_backoff, written.log_backoff, rtol=1e-6, atol=1e-12)
    first = (tmp_path / name).read_bytes()
    arpa.write(lm, WORDS, tmp_path / name)
    assert (tmp_path / name).read_bytes() == first
    assert name.endswith(".gz") == (first[:2] == b"\x1f\x8b")


@pytest.mark.parametrize("order", [2, 3, 5])  # KenLM does not read unigram models
@pytest.mark.parametrize("smoothing", ["gt", "kn", "kn-backoff"])
def test_scores_equal_kenlms(text, smoothing, order, tmp_path):
    kenlm = pytest.importorskip("kenlm", reason="no KenLM: pip install -e '.[oracle]'")
    lm = train(smoothing, text[:3000], VOCAB_SIZE, EOS, order)
    arpa.write(lm, WORDS, tmp_path / "lm.arpa")
    other = kenlm.Model(str(tmp_path / "lm.arpa"))
    # The last word of the vocabulary, <unk>, occurs only here.
    test = np.concatenate([text[3000:], [3, VOCAB_SIZE - 1, 4, EOS]])
    scores = [other.score(line) for line in lines(test)]
    np.testing.assert_allclose(line_log10_probs(lm, test), scores, rtol=0, atol=1e-4)


GOOD = """
\\data\\
ngram 1=4
ngram 2=2

\\1-grams:
-1\t</s>
-99\t<s>\t-0.521737
-0.5\ta\t-0.256305
-0.233757\tb

\\2-grams:
-0.1 <s> a
-0.3\ta </s>

\\end\\
"""


def test_files_of_other_programs_are_read(tmp_path):
    path = tmp_path / "lm.arpa"
    path.write_text("a remark\n" + GOOD)
    lm, words = arpa.read(path)
    assert words == ("<eos>", "a", "b")
    scores = lm.event_log_probs(np.array([1, 0, 2, 0])) / np.log(10)
    np.testing.assert_allclose(scores, [-0.1, -0.3, -0.521737 - 0.233757, -1])


def test_begin_markers_elsewhere_and_tiny_probabilities_are_read(tmp_path):
    path = tmp_path / "lm.arpa"
    path.write_text(
        "\\data\\\nngram 1=3\nngram 2=1\n\\1-grams:\n-99 <s>\n-1e308 x\n0 </s>\n\\2-grams:\n-0.1 x <s>\n\\end\\"
    )
    lm, words = arpa.read(path)
    assert words == ("x", "<eos>")
    assert np.isfinite(lm.log_prob([0])).all()


def test_files_without_a_begin_marker_are_read(tmp_path):
    path = tmp_path / "lm.arpa"
    path.write_text("\\data\\\nngram 1=2\n\\1-grams:\n-0.30103 x\n-0.30103 </s>\n\\end\\")
    lm, words = arpa.read(path)
    assert words == ("x", "<eos>")
    np.testing.assert_allclose(lm.event_log_probs(np.array([0, 1])) / np.log(10), [-0.30103, -0.30103])


def test_a_byte_order_mark_is_passed_over(tmp_path):
    path = tmp_path / "lm.arpa"
    path.write_text(GOOD.lstrip(), encoding="utf-8-sig")
    assert arpa.read(path)[1] == ("<eos>", "a", "b")


def test_unknown_words_in_capitals_are_unk(tmp_path):
    """KenLM takes them for the same; beside `<unk>`, `<UNK>` is a word like any other."""
    path, capitals = tmp_path / "lm.arpa", re.sub(r"\ba\b", "<UNK>", GOOD)
    path.write_text(capitals)
    lm, words = arpa.read(path)
    assert words == ("<eos>", "<unk>", "b")
    np.testing.assert_allclose(lm.log_prob([0])[1] / np.log(10), -0.1)
    path.write_text(capitals.replace("\tb\n", "\t<unk>\n"))
    assert arpa.read(path)[1] == ("<eos>", "<UNK>", "<unk>")


def test_unknown_words_are_refused_where_a_file_has_no_unk(tmp_path):
    path = tmp_path / "lm.arpa"
    path.write_text(GOOD)
    with pytest.raises(UserError, match=r"unknown word 'zebra' .* or a model that has it \(SRILM: ngram-count -unk\)"):
        jaxlm.load(path).score("a zebra")


def test_the_begin_marker_is_written_with_the_logarithm_of_zero(tmp_path):
    path = tmp_path / "lm.arpa"
    path.write_text(GOOD.replace("-99\t<s>", "0\t<s>"))  # as KenLM writes it
    arpa.write(*arpa.read(path), tmp_path / "again.arpa")
    assert "\n-99\t<s>\t-0.521737\n" in (tmp_path / "again.arpa").read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("-1\t</s>", "-0.9\t</s>"), "sum to 1.008 after '<s>', not to 1"),
        (("\tb\n", "\tb\t-0.3\n"), "sum to 0.5012 after 'b', not to 1"),
        (("-0.1 <s> a", "-0.2 <s> a"), "sum to 0.8366 after '<s>', not to 1"),
        (("-0.521737", "-0.6"), "sum to 0.9661 after '<s>', not to 1"),
        (("-0.521737", "99"), r"sum to 6.838e\+98 after '<s>', not to 1"),
    ],
)
def test_a_model_that_is_no_distribution_is_read_with_a_warning(tmp_path, change, message):
    path = tmp_path / "lm.arpa"
    assert GOOD.count(change[0]) == 1
    path.write_text(GOOD.replace(*change))
    with pytest.warns(UserWarning, match=f"the probabilities of the next word {message}") as caught:
        arpa.read(path)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("change", "line", "message"),
    [
        (("ngram 2=2", "ngram 3=2"), 4, "expected ngram 2="),
        (("ngram 2=2", "ngram 2=two"), 4, "expected ngram 2="),
        (("ngram 2=2", "ngram 2=" + "9" * 5000), 4, "expected ngram 2="),
        (("ngram 1=4\nngram 2=2\n", ""), 4, "n-grams of order 0"),
        (("\\1-grams", "\\one-grams"), 6, "expected .1-grams"),
        (("ngram 1=4", "ngram 1=5"), 11, "only 4 of 5 1-grams"),
        (("ngram 1=4", "ngram 1=3"), 10, "expected .2-grams:"),
        (("ngram 1=4", "ngram 1=99999999999999"), 11, "only 4 of 99999999999999 1-grams"),
        (("-0.5\ta", "-0.5x\ta"), 9, "expected log10 P, 1 word and optionally"),
        (("-0.5\ta", "-0_5\ta"), 9, "expected log10 P, 1 word and optionally"),
        (("a\t-0.256305", "a\t-0_1"), 9, "expected log10 P, 1 word and optionally"),
        (("-0.5\ta", "nan\ta"), 9, "expected log10 P, 1 word and optionally"),
        (("-0.5\ta", "0.5\ta"), 9, "expected log10 P, 1 word and optionally"),
        (("-0.5\ta", "-0.5\ta\t1e308"), 9, "expected log10 P, 1 word and optionally"),
        (("-0.1 <s> a", "-0.1 <s>"), 13, "expected log10 P, 2 words and optionally"),
        (("-0.1 <s> a", "-0.1 <s> a b c"), 13, "expected log10 P, 2 words and optionally"),
        (("-0.1 <s> a", "-0.1 <s> c"), 13, "the file lacks a word or the history of '<s> c'"),
        (("-0.1 <s> a", "-0.1 a </s>"), 14, "duplicate 2-gram"),
        (("\tb\n", "\ta\n"), 10, "duplicate word 'a'"),
        (("</s>\n", "c\n"), 10, "no </s> among the unigrams"),
        (("\tb\n", "\t<eos>\n"), 10, "<eos> stands for </s> here, and is a word of the file"),
        (("\\end\\", ""), 16, "the file ends before"),
        (("\\end\\", "\\the end\\"), 16, "expected .end"),
    ],
)
def test_malformed_files_are_refused_with_the_line(tmp_path, change, line, message):
    assert GOOD.count(change[0]) >= 1
    path = tmp_path / "lm.arpa"
    path.write_text(GOOD.replace(*change, 1))
    with pytest.raises(UserError, match=message) as caught:
        arpa.read(path)
    assert caught.value.where == f"{path}, line {line}"


def test_unreadable_files_are_refused(tmp_path):
    with pytest.raises(UserError, match="there is no such file"):
        arpa.read(tmp_path / "none.arpa")
    with pytest.raises(UserError, match="a directory was given instead of a file"):
        arpa.read(tmp_path)
    for name, content in {
        "truncated.arpa.gz": gzip.compress(GOOD.encode())[:-20],
        "empty.arpa": b"",
        "latin.arpa": GOOD.replace("\tb\n", "\té\n").encode("latin-1"),
        "noise.arpa": bytes(range(256)) * 4,
    }.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError):
            arpa.read(tmp_path / name)
    (tmp_path / "ratings.csv").write_text("user,item,stars\n1,50,4\n")
    with pytest.raises(UserError, match=r"no ARPA file .* - name a model's folder, or such a file"):
        arpa.read(tmp_path / "ratings.csv")


def test_missing_histories_are_named(tmp_path):
    path = tmp_path / "lm.arpa"
    more = GOOD.replace("ngram 2=2\n", "ngram 2=2\nngram 3=1\n")
    path.write_text(more.replace("\\end\\", "\\3-grams:\n-0.1 a b </s>\n\n\\end\\"))
    with pytest.raises(UserError, match="the file lacks a word or the history of 'a b </s>'") as caught:
        arpa.read(path)
    assert caught.value.where == f"{path}, line 18"


@pytest.mark.parametrize("word", ["<s>", "</s>", "two words", ""])
def test_words_that_a_file_cannot_represent_are_refused(text, word, tmp_path):
    lm = train("unigram", text, VOCAB_SIZE, EOS, 1)
    with pytest.raises(UserError, match="another meaning"):
        arpa.write(lm, [*WORDS[:-1], word], tmp_path / "lm.arpa")
    assert not list(tmp_path.iterdir())
