"""Text files to ids: against counts by hand and Python's own splitting, and every way a file can be bad."""

import collections
import gzip
import io
import sys
import tracemalloc

import numpy as np
import pytest

from jaxfit.errors import UserError
from jaxlm.data import encoding as text
from jaxlm.data import files as reading
from jaxlm.data.files import Reading
from jaxlm.data.vocabulary import Vocabulary


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def naive(content):
    return [w for line in content.split("\n")[: content.count("\n")] for w in (*line.split(), "<eos>")]


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(reading, "CHUNK", 7)
    monkeypatch.setattr(text, "CHUNK", 7)


def test_events_and_order(tmp_path):
    vocabulary, (ids, unknown) = text.build([write(tmp_path / "t", "b a b\n\n a c a b \n")])
    assert vocabulary.words == ("<eos>", "a", "b", "c")  # three each, ties by name
    assert vocabulary.counts.tolist() == [3, 3, 3, 1]
    assert (vocabulary.eos, vocabulary.unk, len(vocabulary), unknown) == (0, None, 4, 0)
    assert ids.dtype == np.int32
    assert ids.tolist() == [2, 1, 2, 0, 0, 1, 3, 1, 2, 0]


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("out", [False, True])
@pytest.mark.parametrize("zipped", [False, True])
def test_pieces_files_and_destinations_agree(tmp_path, out, zipped):
    """Any cut of the stream gives the same events: long words, no end of the last line, CRLF."""
    first = "it was the b\u00e9st of a-word-longer-than-the-piece times\r\n\n\n it was" + " the" * 50
    second = "\ufeffworst\n<unk> of\u00a0times\n"
    pack = gzip.compress if zipped else bytes
    files = [write(tmp_path / "1", pack(first.encode())), write(tmp_path / "2", pack(second.encode()))]
    want = []
    for content in (first + "\n", second.removeprefix("\ufeff").replace("of\u00a0times", "of_times")):
        want += naive(content)
    path = tmp_path / "ids" if out else None
    vocabulary, (ids, _) = text.build(files, out=path)
    words = [vocabulary.words[i].replace("\u00a0", "_") for i in ids]
    assert words == want
    again = text.encode(files, vocabulary, out=path)
    assert (again.ids == ids).all()
    assert isinstance(again.ids, np.memmap) == out
    counts = collections.Counter(want)
    assert [counts[w.replace("\u00a0", "_")] for w in vocabulary.words] == vocabulary.counts.tolist()
    if out:
        assert np.fromfile(path, "<i4").tolist() == ids.tolist()
        assert not list(tmp_path.glob("*.part"))


def test_memory_does_not_grow_with_the_text(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "CHUNK", 1 << 14)
    monkeypatch.setattr(text, "CHUNK", 1 << 14)
    peaks = []
    for repeats in (5, 1, 8):  # the first run warms up
        path = write(tmp_path / "t", "".join(f"word{i % 999} and more\n" for i in range(repeats * 5_000)))
        tracemalloc.start()
        vocabulary, (ids, _) = text.build([path], out=tmp_path / "ids")
        text.encode([path], vocabulary, out=tmp_path / "ids")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(ids) == repeats * 20_000
    assert peaks[2] < 1.2 * peaks[1]


def test_encodings(tmp_path):
    for encoding in ("latin-1", "utf-16", "utf-8", "UTF8"):
        path = write(tmp_path / encoding, "caf\u00e9 na\u00efve caf\u00e9\n".encode(encoding))
        vocabulary, _ = text.build([path], Reading(encoding))
        assert vocabulary.words[0] == "caf\u00e9"


def test_standard_input(monkeypatch):
    """The training text may be a stream: it is read once, for vocabulary and ids."""
    for content in (b"a b\nb\n", gzip.compress(b"a b\nb\n")):
        stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(content)))
        monkeypatch.setattr(sys, "stdin", stdin)
        vocabulary, (ids, _) = text.build(["-"])
        assert [vocabulary.words[i] for i in ids] == ["a", "b", "<eos>", "b", "<eos>"]
        assert not stdin.closed


def test_size_counts_every_entry(tmp_path):
    path = write(tmp_path / "t", "a a a a b b b c c d\n")
    vocabulary, encoded = text.build([path], size=4)
    assert vocabulary.words == ("a", "<unk>", "b", "<eos>")
    assert vocabulary.counts.tolist() == [4, 3, 3, 1]
    assert encoded.unknown == 3
    assert [vocabulary.words[i] for i in encoded.ids[7:]] == ["<unk>", "<unk>", "<unk>", "<eos>"]
    assert text.build([path], size=5)[0].words == ("a", "b", "c", "<eos>", "d")  # room for all: no <unk>
    assert text.build([path], min_count=2)[0].words == ("a", "b", "c", "<eos>", "<unk>")
    assert text.build([path], size=4, min_count=2)[0].words == ("a", "<unk>", "b", "<eos>")


def test_literal_unk_is_a_word(tmp_path):
    path = write(tmp_path / "t", "<unk> a <unk> b a c\n")
    vocabulary, encoded = text.build([path])
    assert vocabulary.words[:2] == ("<unk>", "a")
    assert encoded.unknown == 0
    assert vocabulary.unk == 0
    vocabulary, encoded = text.build([path], size=3)
    assert vocabulary.words == ("<unk>", "a", "<eos>")
    assert vocabulary.counts.tolist() == [4, 2, 1]
    assert encoded.unknown == 2
    assert text.encode([write(tmp_path / "u", "<unk> z a\n")], vocabulary).unknown == 1


def test_vocabulary_file(tmp_path):
    path = write(tmp_path / "t", "a b c c\n")
    chosen = Vocabulary.load(write(tmp_path / "v", "a\nzebra\n<eos>\n"))
    assert chosen.counts is None
    vocabulary, encoded = text.build([path], vocabulary=chosen)
    assert vocabulary.words == ("<unk>", "<eos>", "a", "zebra")
    assert vocabulary.counts.tolist() == [3, 1, 1, 0]
    assert encoded.unknown == 3
    vocabulary.save(tmp_path / "saved")
    loaded = Vocabulary.load(tmp_path / "saved")
    assert loaded.words == vocabulary.words
    assert loaded.counts.tolist() == vocabulary.counts.tolist()
    chosen.save(tmp_path / "saved")
    assert Vocabulary.load(tmp_path / "saved").counts is None


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("a\n<eos>\nb\na\n", "'a' stands twice, first on line 1 (FILE, line 4)"),
        ("a\nb\n", "no line end <eos> (FILE)"),
        ("<eos>\na b\n", "not one word on the line (FILE, line 2)"),
        ("<eos>\n\na\n", "not one word on the line (FILE, line 2)"),
        ("<eos>\t3\na\tx\n", "'x' is no count (FILE, line 2)"),
        ("<eos>\t3\na\n", "some words have counts and some have none (FILE)"),
        ("", "the file is empty (FILE)"),
    ],
)
def test_bad_vocabulary_files(tmp_path, content, part):
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
        ("123456\u00e9".encode()[:-1], "not valid utf-8 (FILE, byte offset 6)"),  # ends within a character
        ("12345\u00e9".encode()[:-1] + b" x", "not valid utf-8 (FILE, byte offset 5)"),  # across two pieces
        (b"\n\n\n", "fewer than two different words"),
        (b"one one\none\n", "fewer than two different words"),
        (
            b"some words\nand more <eos> of them\n",
            "the line-end marker <eos> is a word of the text (FILE, line 2)",
        ),
        (gzip.compress(b"some words" * 99, mtime=0)[:-9], "the gzip file is damaged"),
        (gzip.compress(b"some words", mtime=0)[:-8] + bytes(8), "the gzip file is damaged"),
    ],
)
@pytest.mark.parametrize("out", [False, True])
def test_bad_texts(tmp_path, content, part, out):
    """One line that says what, where and what to do; an earlier file of ids stays as it was."""
    path = write(tmp_path / "t", content)
    ids = write(tmp_path / "ids", b"earlier")
    with pytest.raises(UserError) as error:
        text.build([path], out=ids if out else None)
    assert part.replace("FILE", str(path)) in str(error.value)
    assert error.value.do
    assert "\n" not in str(error.value)
    assert ids.read_bytes() == b"earlier"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ids", "t"]


def test_bad_names_and_sizes(tmp_path):
    good = write(tmp_path / "t", "a b c\n")
    for path, part in (
        (tmp_path, "a directory stands where a file should"),
        (tmp_path / "x", "no such file"),
    ):
        with pytest.raises(UserError, match=part):
            text.build([good, path])
    for name in ("utf-9", "hex"):
        with pytest.raises(UserError, match="unknown encoding"):
            text.build([good], Reading(name))
    with pytest.raises(UserError, match="no room for a word"):
        text.build([good], size=2)
    with pytest.raises(UserError, match="no word is left"):
        text.build([good], min_count=2)
    with pytest.raises(UserError, match="cannot be written"):
        text.build([good], out=tmp_path / "none" / "ids")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/dev/full is Linux's")
def test_full_disk(tmp_path):
    (tmp_path / "ids.part").symlink_to("/dev/full")
    path = write(tmp_path / "t", "a b c\n")
    with pytest.raises(UserError, match=r"the ids cannot be written: No space left .* - make room there"):
        text.build([path], out=tmp_path / "ids")


@pytest.mark.usefixtures("small_pieces")
def test_unknown_word_without_unk(tmp_path):
    """A closed vocabulary gives other words no probability: the first of them is named."""
    vocabulary, _ = text.build([write(tmp_path / "t", "a b c\n")])
    path = write(tmp_path / "u", "a b c a b c a b c\n\na zebra b\n")
    with pytest.raises(UserError) as error:
        text.encode([path], vocabulary)
    assert f"unknown word 'zebra' ({path}, line 3)" in str(error.value)
    with pytest.raises(UserError, match=r"unknown word 'zebra' \(the text, line 2\)"):
        text.encode_text("a b\nzebra", vocabulary)
    assert text.encode_text("a b\nc", vocabulary).ids.tolist() == [1, 2, 0, 3, 0]
    assert text.encode_text("", vocabulary).ids.tolist() == []


def test_preprocessing():
    prepare = Reading(lower=True, numbers=True, punctuation=True).prepare
    said = (
        """He didn't pay $1,000.50 -- "well-known" in 1995--for B2 (or 3/4), etc... 'twas <unk> 1st 10:30."""
    )
    want = """he didn't pay $ N -- " well-known " in N -- for b2 ( or N ) , etc ... ' twas <unk> 1st N ."""
    assert prepare(said).split() == want.split()
    assert Reading(numbers=True).prepare("-3 +4.5 5, a7 8\n9") == "N N 5, a7 N\nN"
    assert Reading().prepare(said) == said


def test_penn_treebank(data_dir):
    files = [data_dir / "ptb" / f"{part}.txt" for part in ("train", "valid", "test")]
    vocabulary, train = text.build(files[:1])
    assert len(vocabulary) == 10_000
    assert len(train.ids) == 929_589
    assert vocabulary.words[:3] == ("the", "<unk>", "<eos>")
    for path, events in zip(files[1:], (73_760, 82_430), strict=True):
        encoded = text.encode([path], vocabulary)
        assert (len(encoded.ids), encoded.unknown) == (events, 0)
