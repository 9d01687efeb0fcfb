"""Files of word vectors: written and read, against gensim and bytes made here, and what damage says."""

import gzip
import tracemalloc
from contextlib import nullcontext

import numpy as np
import pytest

import jaxlm
from jaxfit.errors import UserError
from jaxlm import word_vectors
from jaxlm.cli.main import main

WORDS = ("the", "<eos>", "naïve", "7", "東京", "-1")
VECTORS = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)
VECTORS[3] = 0
TEXT, BINARY = word_vectors.write_text, word_vectors.write_binary


def binary(words=WORDS, vectors=VECTORS, end=b"\n"):
    """Return a file as word2vec writes it, or, without `end`, as gensim does."""
    header = f"{len(words)} {vectors.shape[1]}\n".encode()
    return header + b"".join(w.encode() + b" " + v.astype("<f4").tobytes() + end for w, v in zip(words, vectors))  # noqa: B905


def text(words=WORDS, vectors=VECTORS, end=b"\n"):
    header = f"{len(words)} {vectors.shape[1]}".encode() + end
    return header + b"".join(f"{w} {' '.join(map(repr, v.tolist()))}".encode() + end for w, v in zip(words, vectors))  # noqa: B905


@pytest.mark.parametrize(
    "content",
    [binary(), binary(end=b""), text(), text(end=b" \r\n"), text()[:-1], text().replace(b" ", b"\t"),
     gzip.compress(binary()), gzip.compress(text()), b"\xef\xbb\xbf" + text()],
    ids=[
        "word2vec", "gensim", "text", "carriage-returns", "no-last-line-end", "tabs", "gzip-binary", "gzip-text",
        "byte-order-mark",
    ],
)  # fmt: skip
def test_files_of_other_programs_are_read(content, tmp_path):
    (tmp_path / "v").write_bytes(content)
    model = jaxlm.load(tmp_path / "v")
    assert model.vocabulary.words == WORDS
    np.testing.assert_array_equal(model.vectors(), VECTORS)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("width", [1, 2, 5, 40])
def test_written_files_are_read_again(width, seed, tmp_path):
    vectors = np.random.default_rng([width, seed]).normal(size=(6, width)).astype(np.float32)
    BINARY(WORDS, vectors, tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == binary(vectors=vectors)
    TEXT(WORDS, vectors, tmp_path / "t")
    for name in "bt":
        found, words = word_vectors.read(tmp_path / name)
        assert words == WORDS
        np.testing.assert_allclose(found.vectors, vectors, rtol=0 if name == "b" else 1e-6)


@pytest.mark.parametrize("write", [TEXT, BINARY])
def test_files_named_gz_are_gzipped(write, tmp_path):
    for name in ("v", "v.gz"):
        write(WORDS, VECTORS, tmp_path / name)
    assert gzip.decompress((tmp_path / "v.gz").read_bytes()) == (tmp_path / "v").read_bytes()


@pytest.mark.parametrize(("write", "is_binary"), [(TEXT, False), (BINARY, True)])
def test_gensim_reads_and_writes_the_same(write, is_binary, tmp_path):
    models = pytest.importorskip("gensim.models")
    write(WORDS, VECTORS, tmp_path / "ours")
    theirs = models.KeyedVectors.load_word2vec_format(str(tmp_path / "ours"), binary=is_binary)
    assert tuple(theirs.index_to_key) == WORDS
    np.testing.assert_allclose(theirs.vectors, VECTORS, rtol=1e-6)
    theirs.save_word2vec_format(str(tmp_path / "theirs"), binary=is_binary)
    found, words = word_vectors.read(tmp_path / "theirs")
    assert words == WORDS
    np.testing.assert_array_equal(found.vectors, theirs.vectors)


@pytest.mark.parametrize("block", [1, 20, 1 << 20])
@pytest.mark.parametrize("form", [binary, text])
def test_files_are_read_in_blocks_of_any_size(form, block, monkeypatch, tmp_path):
    monkeypatch.setattr(word_vectors, "BLOCK", block)
    monkeypatch.setattr(word_vectors, "LONGEST", 8)
    words, vectors = [f"w{i}" for i in range(70)], np.random.default_rng(1).normal(size=(70, 5)).astype(np.float32)
    (tmp_path / "v").write_bytes(form(words, vectors))
    found, names = word_vectors.read(tmp_path / "v")
    assert names == tuple(words)
    np.testing.assert_array_equal(found.vectors, vectors)


@pytest.mark.parametrize("form", [binary, text])
def test_reading_takes_little_more_memory_than_the_vectors(form, tmp_path):
    """Also where the first line promises more words than there are."""
    words, vectors = [str(i) for i in range(20_000)], np.ones((20_000, 100), np.float32)
    content = form(words, vectors)
    (tmp_path / "v").write_bytes(content)
    (tmp_path / "short").write_bytes(content.replace(b"20000", b"9" * 9, 1))
    for name in ("v", "short"):
        tracemalloc.start()
        try:
            with pytest.raises(UserError) if name == "short" else nullcontext():
                word_vectors.read(tmp_path / name)
            assert tracemalloc.get_traced_memory()[1] < (2.2 if name == "short" else 1.2) * vectors.nbytes + (8 << 20)
        finally:
            tracemalloc.stop()


LINES = text().split(b"\n")
DAMAGED = {
    "short text": (b"\n".join(LINES[:4]) + b"\n", "only 3 of 6 word vectors (FILE, line 5)"),
    "long text": (text() + LINES[1], "more than 6 word vectors (FILE, line 8)"),
    "missing number": (text().replace(LINES[2], LINES[2].rpartition(b" ")[0]),
                       "expected a word and 5 numbers (FILE, line 3)"),
    "no number": (text().replace(LINES[2], LINES[2] + b"x"), "expected a word and 5 numbers (FILE, line 3)"),
    "no number at first": (text().replace(LINES[1], LINES[1] + b"x"), "expected a word and 5 numbers (FILE, line 2)"),
    "not finite at first": (text().replace(LINES[1], b"the 0 0 0 0 nan"), "a vector that is not finite, of 'the'"),
    "decimal commas": (b"2 3\nthe 0,1 0,2 0,3\nof 0,4 0,5 0,6\n", "expected a word and 3 numbers (FILE, line 2) - "
                       "create the file of word vectors again, with a decimal point in numbers"),
    "another width": (text().replace(b"6 5\n", b"6 300\n"), "expected a word and 300 numbers (FILE, line 2)"),
    "no first line": (text().partition(b"\n")[2], "word vectors without a first line of two numbers"),
    "not finite": (text().replace(LINES[4], b"7 0 0 0 0 nan"), "a vector that is not finite, of '7' (FILE, line 5)"),
    "beyond float32": (text().replace(LINES[4], b"7 0 0 0 0 1e60"), "a vector that is not finite, of '7'"),
    "duplicate": (text().replace(b"\n7", b"\nthe"), "duplicate word 'the' (FILE, line 5)"),
    "not UTF-8": (text().replace("ï".encode(), b"\xef"), "a word that is not UTF-8 (FILE, line 4)"),
    "short binary": (binary()[:-3], "only 5 of 6 word vectors (FILE, byte offset 135)"),
    "long binary": (binary() + b"the", "more than 6 word vectors (FILE, byte offset 159)"),
    "duplicate in binary": (binary().replace(b"\n7 ", b"\nthe "), "duplicate word 'the' (FILE, byte offset 84)"),
    "binary without words": (b"3 5\n", "only 0 of 3 word vectors (FILE, line 2)"),
    "no words": (b"0 5\n", "there are no word vectors (FILE, line 1)"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "said"), DAMAGED.values(), ids=DAMAGED)
def test_damage_is_one_line_with_its_place(content, said, tmp_path):
    path = tmp_path / "v"
    path.write_bytes(content)
    with pytest.raises(UserError) as error:
        jaxlm.load(path)
    assert str(error.value).replace(str(path), "FILE").startswith(said)


def test_commands_take_a_file_in_place_of_a_folder(tmp_path, capsys):
    file, near = tmp_path / "v.bin", VECTORS.copy()
    near[4] = 2 * near[0]
    BINARY(WORDS, near, file)
    assert main(["neighbours", str(file), "the", "--top", "1"]) == 0
    assert "東京" in capsys.readouterr().out
    (tmp_path / "pairs").write_text("the\t東京\t9\nthe\tnaïve\t1\nthe\t-1\t2\n")
    assert main(["similarity", str(file), str(tmp_path / "pairs")]) == 0
    (tmp_path / "questions").write_text(": one\nthe 東京 naïve -1\n")
    assert main(["analogies", str(file), str(tmp_path / "questions")]) == 0
    assert main(["export", str(file), "--format", "word2vec", "--out", str(tmp_path / "again")]) == 0
    np.testing.assert_allclose(jaxlm.load(tmp_path / "again").vectors(), near, rtol=1e-6)
    capsys.readouterr()
    assert main(["info", str(file)]) == 0
    assert "word2vec, 6 words" in capsys.readouterr().out
    assert main(["score", str(file), str(tmp_path / "pairs")]) == 2
    assert "word2vec has none" in capsys.readouterr().err
