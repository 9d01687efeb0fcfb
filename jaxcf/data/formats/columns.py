"""The rows of several files, joined: columns of numbers, which stand for the distinct texts of a column."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jaxcf.data.formats.file_layout import COLUMNS
from jaxcf.data.formats.parsing import Part
from jaxcf.data.ids import trimmed
from jaxfit.files import large_arrays, limits
from jaxfit.files.large_arrays import Collector


class Columns(NamedTuple):
    """The rows of files, in their order, in which ids and ratings are places of their texts."""

    rows: int
    codes: dict[str, NDArray[np.int32]]  # [rows], of user, item and, where present, stars
    texts: dict[str, pa.Array]  # the distinct texts of each, without blanks around; the first is "", for missing ones
    time: NDArray[np.int64] | None  # [rows]
    locate: Callable[[int], str]  # returns file and line of a row
    taken: tuple[tuple[str, str], ...]  # files, and which of their columns were taken as what, by which rule
    guessed: bool  # nothing in some file says what its columns are
    notes: tuple[str, ...]  # messages for the user
    rated: Part | None  # the first part with rows and ratings
    unrated: Part | None  # the first part with rows and without ratings


def join(parts: Iterable[Part]) -> Columns:
    """Read the rows of files, some at a time, with ratings and times where all files with rows have them.

    Raises UserError for more rows than there can be, and what is wrong with a file.
    """
    read: list[Part] = []
    ends = [0]  # rows up to the end of each part
    texts = {name: _Texts() for name in COLUMNS if name != "time"}
    with ExitStack() as stack:
        collectors = {
            name: stack.enter_context(Collector(np.int64 if name == "time" else np.int32)) for name in COLUMNS
        }
        for table in _tables(parts, read, ends):
            for name in table.column_names:
                column = table[name]
                collectors[name].append(column.to_numpy() if name == "time" else texts[name].codes(column))
        some = [part for part, begin, end in zip(read, ends, ends[1:], strict=False) if end > begin] or read
        common = [name for name in COLUMNS if all(name in part.names for part in some)]
        arrays = {name: collectors[name].array() for name in common}
    pa.default_memory_pool().release_unused()  # what Arrow would keep, about as much as the ratings take

    def locate(row: int) -> str:
        which = int(np.searchsorted(ends, row, side="right")) - 1
        return read[which].locate(row - ends[which])

    return Columns(
        ends[-1],
        {name: arrays[name] for name in common if name != "time"},
        {name: texts[name].texts for name in common if name != "time"},
        arrays.get("time"),
        locate,
        tuple(itertools.chain.from_iterable(part.taken for part in read)),
        any(part.guessed for part in some),
        tuple(itertools.chain.from_iterable(part.notes for part in read)),
        next((part for part in some if "stars" in part.names), None),
        next((part for part in some if "stars" not in part.names), None),
    )


def _tables(parts: Iterable[Part], read: list[Part], ends: list[int]) -> Iterator[pa.Table]:
    """Yield the rows of files, about `PIECE` at a time, as each time the distinct texts so far are hashed.

    Args:
        read: list to which each part is appended without its rows.
        ends: list to which the number of rows up to the end of each part is appended.
    """
    held: list[pa.RecordBatch] = []
    rows, begin = 0, 0  # up to here, and up to those that are held
    for part in parts:
        if held and held[0].schema.names != list(part.names):
            yield pa.Table.from_batches(held)
            held, begin = [], rows
        for batch in part.batches:
            if not batch.num_rows:
                continue
            held.append(batch)
            rows += batch.num_rows
            if rows > limits.MAX_EVENTS:
                files = ", ".join(file for each in (*read, part) for file, _ in each.taken)
                limits.require_countable(rows, "rows", files)
            if rows - begin >= large_arrays.PIECE:
                yield pa.Table.from_batches(held)
                held, begin = [], rows
        read.append(part._replace(batches=()))
        ends.append(rows)
    if held:
        yield pa.Table.from_batches(held)


class _Texts:
    """The distinct texts of a column so far."""

    def __init__(self) -> None:
        self.texts = pa.array([""], pa.utf8())

    def codes(self, column: pa.ChunkedArray) -> NDArray[np.int32]:
        """Return the places of a column's texts, of which new ones are added."""
        encoded = column.combine_chunks()
        texts = trimmed(encoded.dictionary)
        places = pc.index_in(texts, self.texts)
        if places.null_count:
            new = pc.unique(texts.filter(pc.is_null(places)))
            self.texts = pa.concat_arrays([self.texts, new])
            places = pc.index_in(texts, self.texts)
        place = np.append(places.to_numpy(), np.int32(0))
        return place[pc.fill_null(encoded.indices, len(texts)).to_numpy()]
