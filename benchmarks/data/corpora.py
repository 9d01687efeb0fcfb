"""Readers of texts, one for each publisher's form of files: from files to word ids."""

import math
import re
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.data.archive import contents
from jaxfit.errors import UserError
from jaxlm.data import encoding as text
from jaxlm.data.corpus import Corpus
from jaxlm.data.files import Reading

# sha256 over the sha256 of the 522 novels' contents in the order of their names: it does not depend on packing
HOLMES = "bc34f6de75a9dfaf3637e56144df77fa9226fca771094a4ff300bd64efe914e3"

_HEADER_END = re.compile(r"END.{0,6}THE SMALL PRINT.*", re.I)
_FOOTER = re.compile(r"^\W*(?:(?:this is )?(?:the )?end of\s+)?(?:(?:the|this)\s+)?project gutenberg", re.I | re.M)
_LETTER = re.compile(r"\w")
_PARAGRAPH = re.compile(r"\n[ \t]*\n\s*")
_SPOKEN = re.compile(r'"([^"]+)')  # from a quotation mark to the next one or the paragraph's end
_SENTENCE = re.compile(r"""(?<!\bMr)(?<!\bMrs)(?<!\bDr)(?<!\bSt)(?<!\b[A-Z])([.!?]["')\]]*)\s+(?=["'(\[]*[A-Z])""")


def three_files(
    name: str, paths: list[Path], sha256: str, note: str, size: int | None = None, min_count: int = 1
) -> Corpus:
    """Read a data set that is already split, one sentence a line: training, validation and test file."""
    vocabulary, train = text.build(paths[:1], size=size, min_count=min_count)
    valid, test = (text.encode([path], vocabulary) for path in paths[1:])
    return Corpus(name, train.ids, valid.ids, test.ids, vocabulary, sha256, note)


def brown(paths: list[Path], sha256: str, note: str, sizes: tuple[int, int] = (800_000, 200_000)) -> Corpus:
    """Read NLTK's package of the Brown corpus: words without their tags, texts in the order of their names.

    Split as by Bengio et al. (2003): the first 800,000 words are for training, the next 200,000 for
    validation, the rest for the test; words that occur three times or less in training are `<unk>`.
    """
    with zipfile.ZipFile(paths[0]) as archive:
        names = sorted(n for n in archive.namelist() if re.fullmatch(r"brown/c[a-r]\d\d", n))
        pages = [archive.read(n).decode("ascii") for n in names]
    lines = (line.split() for page in pages for line in page.splitlines())
    sentences = (" ".join(word.rpartition("/")[0] for word in line) + "\n" for line in lines if line)
    return _split("brown", sentences, (*sizes, math.inf), sha256, note, min_count=4)


# how sentences of novels are read; also those of questions about them
READING = Reading(lower=True, numbers=True, punctuation=True)


def novel(page: str, spoken: bool = False) -> str:
    """Turn a Project Gutenberg e-text into one sentence a line, without its licence and its hard line breaks.

    The licence ends with the line "END THE SMALL PRINT"; the footer is what follows a line about Project
    Gutenberg in the last twentieth. Letters become lower case, numbers `N`, punctuation marks words.

    Args:
        page: the e-text.
        spoken: keep only what is in double quotation marks, without punctuation marks, like a recogniser.

    Raises:
        UserError: no "SMALL PRINT" block.
    """
    page = page.replace("\r\n", "\n").replace("\r", "\n").replace("\x1a", " ").replace("_", " ")
    header = _HEADER_END.search(page)
    if header is None:
        raise UserError("a novel lacks the end of its SMALL PRINT header", page[:40].strip(), "use the given files")
    footer = _FOOTER.search(page, max(header.end(), len(page) * 19 // 20))
    body = page[header.end() : footer.start() if footer else None].strip()
    paragraphs = [paragraph.replace("\n", " ") for paragraph in _PARAGRAPH.split(body)]
    if spoken:  # every other quotation mark ends a speech, and what follows is not spoken
        paragraphs = [speech for paragraph in paragraphs for speech in _SPOKEN.findall(paragraph)[::2]]
    lines = READING.prepare("\n".join(_SENTENCE.sub(r"\1\n", paragraph) for paragraph in paragraphs)).split("\n")
    words = ([word for word in line.split() if not spoken or _LETTER.search(word)] for line in lines)
    return "".join(f"{' '.join(line)}\n" for line in words if line)


def holmes(
    paths: list[Path],
    sha256: str,
    note: str,
    sizes: tuple[int, int, int] = (14_000_000, 1_000_000, 1_000_000),
    size: int | None = 17_964,
    min_count: int = 1,
    spoken: bool = False,
) -> Corpus:
    """Read novels of the Sentence Completion Challenge, by default in the size of the thesis' AP News text (4.6.1).

    Files are taken in the order of their names, and each part begins with a new file.

    Args:
        paths, sha256, note: of the archive.
        sizes: minimum number of events of each part: training, validation, test.
        size, min_count: maximum number of words of the vocabulary, and minimum count of a word; others are `<unk>`.
        spoken: as in `novel`.

    Raises:
        UserError: the archive does not hold the 522 novels.
    """
    pages = contents(paths[0], "", HOLMES, "the 522 novels")
    lines = (novel(page.decode("latin-1"), spoken) for page in pages)
    return _split("holmes", lines, sizes, sha256, note, size=size, min_count=min_count)


def _split(
    name: str,
    pieces: Iterator[str],
    sizes: Iterable[float],
    sha256: str,
    note: str,
    size: int | None = None,
    min_count: int = 1,
) -> Corpus:
    """Split lines in their order into parts, each cut at the end of a line.

    A part begins with a new piece.

    Args:
        sizes: minimum number of events of each part; infinite: the rest.
    """
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / part for part in ("train", "valid", "test")]
        for path, wanted in zip(paths, sizes, strict=True):
            _write(path, pieces, wanted)
        return three_files(name, paths, sha256, note, size, min_count)


def _write(path: Path, pieces: Iterator[str], wanted: float) -> None:
    events = 0
    with open(path, "w", encoding="utf-8", newline="\n") as f:
        for piece in pieces:
            for line in piece.splitlines(keepends=True):
                if events < wanted:
                    events += len(line.split()) + 1
                    f.write(line)
            if events >= wanted:
                return
    if wanted < math.inf:
        raise UserError(f"the text ends after {events:,} of {wanted:,} events", path.name, "use all of its files")
