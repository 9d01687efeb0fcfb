"""Text files as ids: counts by hand, Python's own splitting, and every kind of invalid file."""

import collections
import gzip
import io
import sys
import tracemalloc

import numpy as np
import pytest

from jaxfit.errors import UserError
from jaxfit.files.large_arrays import stored_in
from jaxlm.data import encoding, files
from jaxlm.data.encoding import build, encode, encode_text
from jaxlm.data.files import Reading
from jaxlm.data.vocabulary import Vocabulary


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def split_by_hand(content):
    return [w for line in content.split("\n")[: content.count("\n")] for w in (*line.split(), "<eos>")]


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(files, "CHUNK", 7)
    monkeypatch.setattr(encoding, "CHUNK", 7)


def test_words_are_ordered_by_count_then_name(tmp_path):
    vocabulary, (ids, unknown) = build([write(tmp_path / "t", "b a b\n\n a c a b \n")], closed=True)
    assert vocabulary.words == ("<eos>", "a", "b", "c")  # three of each of the first three
    assert vocabulary.counts.tolist() == [3, 3, 3, 1]
    assert (vocabulary.eos, vocabulary.unk, len(vocabulary), unknown) == (0, None, 4, 0)
    assert ids.dtype == np.int32
    assert ids.tolist() == [2, 1, 2, 0, 0, 1, 3, 1, 2, 0]


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("out", [False, True])
@pytest.mark.parametrize("gzipped", [False, True])
def test_events_do_not_depend_on_pieces_gzip_or_destination(tmp_path, out, gzipped):
    """Also with long words, a missing last line end, and CRLF."""
    first = "it was the b\u00e9st of a-word-longer-than-the-piece times\r\n\n\n it was" + " the" * 50
    second = "\ufeffworst\n<unk> of\u00a0times\n"
    compress = gzip.compress if gzipped else bytes
    paths = [
        write(tmp_path / "1", compress(first.encode())),
        write(tmp_path / "2", compress(second.encode())),
    ]
    expected = []
    for content in (first + "\n", second.removeprefix("\ufeff")):
        expected += split_by_hand(content)
    with stored_in(tmp_path if out else None, 0):
        vocabulary, (ids, _) = build(paths)
    words = [vocabulary.words[i] for i in ids]
    assert words == expected
    assert (encode(paths, vocabulary).ids == ids).all()
    assert isinstance(ids, np.memmap) == out
    counts = collections.Counter(expected)
    assert [counts[w] for w in vocabulary.words] == vocabulary.counts.tolist()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["1", "2"]


def test_memory_does_not_grow_with_the_text(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "CHUNK", 1 << 14)
    monkeypatch.setattr(encoding, "CHUNK", 1 << 14)
    peaks = []
    for repeats in (5, 1, 8):  # the first run warms up
        path = write(tmp_path / "t", "".join(f"word{i % 999} and more\n" for i in range(repeats * 5_000)))
        tracemalloc.start()
        with stored_in(tmp_path, 0):
            _, (ids, _) = build([path])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(ids) == repeats * 20_000
    assert peaks[2] < 1.2 * peaks[1]


def test_files_in_other_encodings_are_read(tmp_path):
    for name in ("latin-1", "utf-16", "utf-8", "UTF8"):
        path = write(tmp_path / name, "caf\u00e9 na\u00efve caf\u00e9\n".encode(name))
        vocabulary, _ = build([path], Reading(name))
        assert vocabulary.words[0] == "caf\u00e9"


def test_standard_input_is_read_once_for_vocabulary_and_ids(monkeypatch):
    for content in (b"a b\nb\n", gzip.compress(b"a b\nb\n")):
        stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(content)))
        monkeypatch.setattr(sys, "stdin", stdin)
        vocabulary, (ids, _) = build(["-"], min_count=1)
        assert [vocabulary.words[i] for i in ids] == ["a", "b", "<eos>", "b", "<eos>"]
        assert not stdin.closed


def test_size_includes_eos_and_unk(tmp_path):
    path = write(tmp_path / "t", "a a a a b b b c c d\n")
    vocabulary, encoded = build([path], size=4)
    assert vocabulary.words == ("a", "<unk>", "b", "<eos>")
    assert vocabulary.counts.tolist() == [4, 3, 3, 1]
    assert encoded.unknown == 3
    assert [vocabulary.words[i] for i in encoded.ids[7:]] == ["<unk>", "<unk>", "<unk>", "<eos>"]
    assert build([path], size=5)[0].words == ("a", "b", "c", "<eos>", "<unk>")
    assert build([path], size=6)[0].words == ("a", "b", "c", "<eos>", "d", "<unk>")  # all fit
    assert build([path], min_count=2)[0].words == ("a", "b", "c", "<eos>", "<unk>")
    assert build([path], size=4, min_count=2)[0].words == ("a", "<unk>", "b", "<eos>")


def test_literal_unk_is_a_known_word(tmp_path):
    path = write(tmp_path / "t", "<unk> a <unk> b a c\n")
    vocabulary, encoded = build([path])
    assert vocabulary.words[:2] == ("<unk>", "a")
    assert encoded.unknown == 0
    assert vocabulary.unk == 0
    vocabulary, encoded = build([path], size=3)
    assert vocabulary.words == ("<unk>", "a", "<eos>")
    assert vocabulary.counts.tolist() == [4, 2, 1]
    assert encoded.unknown == 2
    assert encode([write(tmp_path / "u", "<unk> z a\n")], vocabulary).unknown == 1


def test_saved_vocabulary_equals_loaded(tmp_path):
    path = write(tmp_path / "t", "a b c c\n")
    chosen = Vocabulary.load(write(tmp_path / "v", "a\nzebra\n<eos>\n"))
    assert chosen.counts is None
    vocabulary, encoded = build([path], vocabulary=chosen)
    assert vocabulary.words == ("<unk>", "<eos>", "a", "zebra")
    assert vocabulary.counts.tolist() == [3, 1, 1, 0]
    assert encoded.unknown == 3
    vocabulary.save(tmp_path / "saved")
    loaded = Vocabulary.load(tmp_path / "saved")
    assert loaded.words == vocabulary.words
    assert loaded.counts.tolist() == vocabulary.counts.tolist()
    chosen.save(tmp_path / "saved")
    assert Vocabulary.load(tmp_path / "saved").counts is None


def test_a_first_word_that_begins_with_the_byte_order_mark_is_loaded(tmp_path):
    words = ("\ufeffx", "x", "<eos>")
    Vocabulary(words).save(tmp_path / "saved")
    assert Vocabulary.load(tmp_path / "saved").words == words


def test_utf_16_without_its_byte_order_mark_is_refused(tmp_path):
    path = write(tmp_path / "t", "some words\n".encode("utf-16-le"))
    with pytest.raises(
        UserError, match=r"the text is not valid utf-16 \(.*, byte offset 0\) - name the file's encoding"
    ):
        build([str(path)], Reading(encoding="utf-16"))


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("a\n<eos>\nb\na\n", "duplicate word 'a', first on line 1 (FILE, line 4)"),
        ("a\nb\n", "the vocabulary lacks the line end <eos> (FILE)"),
        ("<eos>\na b\n", "the line does not hold exactly one word (FILE, line 2)"),
        ("<eos>\n\na\n", "the line does not hold exactly one word (FILE, line 2)"),
        ("<eos>\t3\na\tx\n", "invalid count 'x' (FILE, line 2)"),
        ("<eos>\t3\na\t99999999999999999999\n", "invalid count '99999999999999999999' (FILE, line 2)"),
        ("<eos>\t3\na\n", "only some words have counts (FILE)"),
        ("", "the file is empty (FILE)"),
    ],
)
def test_invalid_vocabulary_files_are_refused(tmp_path, content, part):
    path = write(tmp_path / "v", content)
    with pytest.raises(UserError) as error:
        Vocabulary.load(path)
    assert part.replace("FILE", str(path)) in str(error.value)
    assert error.value.do


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "the file is empty (FILE)"),
        (
            b"one word\nor tw\xe9, or three\n",
            "not valid utf-8 (FILE, byte offset 14) - name the file's encoding",
        ),
        (
            "caf\u00e9 noir\n".encode("utf-16"),
            "byte offset 0) - name the file's encoding, for example --encoding utf-16",
        ),
        ("123456\u00e9".encode()[:-1], "not valid utf-8 (FILE, byte offset 6)"),  # ends within a character
        ("12345\u00e9".encode()[:-1] + b" x", "not valid utf-8 (FILE, byte offset 5)"),  # across two pieces
        (b"\x00\xff\xfe", "not valid utf-8 (FILE, byte offset 1) - it does not seem to be text"),
        (b"\n\n\n", "fewer than two different words (FILE)"),
        (b"one one\none\n", "fewer than two different words"),
        (
            b"some words\nand more <eos> of them\n",
            "the text contains the line-end marker <eos> as a word (FILE, line 2)",
        ),
        (b"a line\ranother one\rand more", "the lines end in carriage returns alone (FILE) - convert it: tr '\\r'"),
        (b"PK\x03\x04 a zip archive", "the file is a zip archive (FILE) - unpack it"),
        (gzip.compress(b"some words" * 99, mtime=0)[:-9], "the gzip file is damaged"),
        (gzip.compress(b"some words", mtime=0)[:-8] + bytes(8), "the gzip file is damaged"),
    ],
)
@pytest.mark.parametrize("out", [False, True])
def test_invalid_texts_are_refused(tmp_path, content, part, out):
    """The message is one line with what, where and what to do; nothing is left behind."""
    path = write(tmp_path / "t", content)
    with pytest.raises(UserError) as error, stored_in(tmp_path if out else None, 0):
        build([path])
    assert part.replace("FILE", str(path)) in str(error.value)
    assert error.value.do
    assert "\n" not in str(error.value)
    assert [p.name for p in tmp_path.iterdir()] == ["t"]


def test_invalid_file_names_encodings_and_sizes_are_refused(tmp_path):
    good = write(tmp_path / "t", "a b c\n")
    for path, part in (
        (tmp_path, "a directory was given instead of a file"),
        (tmp_path / "x", "no such file"),
    ):
        with pytest.raises(UserError, match=part):
            build([good, path])
    for name in ("utf-9", "hex"):
        with pytest.raises(UserError, match="unknown encoding"):
            build([good], Reading(name))
    with pytest.raises(UserError, match="a vocabulary of size 2 is too small"):
        build([good], size=2)
    with pytest.raises(UserError, match="no word is left"):
        build([good], min_count=2)


@pytest.mark.usefixtures("small_pieces")
def test_unknown_word_is_refused_by_a_closed_vocabulary(tmp_path):
    vocabulary, _ = build([write(tmp_path / "t", "a b c\n")], closed=True)
    path = write(tmp_path / "u", "a b c a b c a b c\n\na zebra b\n")
    with pytest.raises(UserError) as error:
        encode([path], vocabulary)
    assert f"unknown word 'zebra' ({path}, line 3)" in str(error.value)
    with pytest.raises(UserError, match=r"unknown word 'zebra' \(the text, line 2\)"):
        encode_text("a b\nzebra", vocabulary)
    assert encode_text("a b\nc", vocabulary).ids.tolist() == [1, 2, 0, 3, 0]
    assert encode_text("", vocabulary).ids.tolist() == []


def test_preprocessing_splits_punctuation_and_replaces_numbers():
    prepare = Reading(lower=True, numbers=True, punctuation=True).prepare
    text = """He didn't pay $1,000.50 -- "well-known" in 1995--for B2 (or 3/4), etc... 'twas <unk> 1st 10:30."""
    expected = """he didn't pay $ N -- " well-known " in N -- for b2 ( or N ) , etc ... ' twas <unk> 1st N ."""
    assert prepare(text).split() == expected.split()
    assert Reading(numbers=True).prepare("-3 +4.5 5, a7 8\n9") == "N N 5, a7 N\nN"
    assert Reading().prepare(text) == text


@pytest.mark.parametrize("blank", [*"\x1c\x1d\x1e\x1f\u3000\xa0\u2028\u2029\x85\u202f\t", " \r"])
def test_unicode_white_space_separates_words_and_ends_no_line(tmp_path, blank):
    path = write(tmp_path / "t", f"un{blank}mot 12{blank}mots\nun{blank}\r\n")
    vocabulary, (ids, _) = build([path], Reading(numbers=True), closed=True)
    assert [vocabulary.words[i] for i in ids] == ["un", "mot", "N", "mots", "<eos>", "un", "<eos>"]


def test_a_text_without_blanks_between_words_is_warned_of(tmp_path):
    lines = ["今天天气很好我们去公园", "明天下雨在家看书学习", "", "他说我们明天再去公园"]
    with pytest.warns(UserWarning, match=r"0\.8 words on average, such as '今天天气很好我们去公园' - .* separate"):
        build([write(tmp_path / "t", "\n".join(lines))])
    build([write(tmp_path / "u", "\n".join(" ".join(line) for line in lines))])  # warnings are errors here
    build([write(tmp_path / "v", "yes\nno\nwell\n")])


def test_penn_treebank_has_its_published_sizes(data_dir):
    paths = [data_dir / "ptb" / f"{part}.txt" for part in ("train", "valid", "test")]
    vocabulary, train = build(paths[:1])
    assert len(vocabulary) == 10_000
    assert len(train.ids) == 929_589
    assert vocabulary.words[:3] == ("the", "<unk>", "<eos>")
    for path, events in zip(paths[1:], (73_760, 82_430), strict=True):
        encoded = encode([path], vocabulary)
        assert (len(encoded.ids), encoded.unknown) == (events, 0)
