"""Files of ratings whose columns have names and types: Parquet, and JSON lines (an object in each line)."""

import collections
import io
import itertools
import json
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jaxcf.data.formats import bad_lines
from jaxcf.data.formats.file_layout import FIRST_LINES, columns_by_name, lines, opened
from jaxcf.data.formats.parsing import TEXTS, Part, of_table
from jaxcf.data.ids import as_text
from jaxcf.data.options import Reading
from jaxcf.data.ratings import RatingScale
from jaxfit.errors import UserError
from jaxfit.files.limits import limits, require_countable
from jaxfit.files.opening import Source

VALUE = 8  # bytes of a number or a short text in memory
MISSING = "missing"
KINDS = {str: pa.utf8(), int: pa.int64(), float: pa.float64()}  # of JSON, for Arrow


def parquet(path: Source, reading: Reading, columns: Collection[str]) -> Iterator[Part]:
    """Read some columns of a Parquet file.

    Raises:
        UserError: if the file is damaged or expands beyond `jaxfit.files.limits`, its columns cannot be identified or
            hold no ids, ratings or times.
    """
    import pyarrow.parquet as pq  # here, as it takes a while, and other files do not need it

    with opened(path) as stream:
        try:
            file = pq.ParquetFile(stream)
            fields, groups = file.schema_arrow.names, range(file.metadata.num_row_groups)
            places, taken = columns_by_name(fields, reading, str(path), columns)
            names = {name: fields[place] for name, place in places.items() if name in columns}
            rows, held = file.metadata.num_rows, stream.seek(0, io.SEEK_END)
            require_countable(rows, "rows", path)
            decoded = sum(file.metadata.row_group(group).total_byte_size for group in groups)
            limits().require_expansion(max(decoded, rows * len(names) * VALUE), held, "Parquet", path)
            wanted = [file.schema_arrow.field(place) for name, place in places.items() if name in columns]
            # a text that is repeated takes its memory once
            texts = [field.name for field in wanted if field.type in (pa.utf8(), pa.large_utf8())]
            table = pq.ParquetFile(stream, read_dictionary=texts).read(columns=[field.name for field in wanted])
            table.validate(full=True)  # texts are valid
        except (pa.ArrowException, OSError, UnicodeError) as error:
            what = f"the Parquet file cannot be read: {str(error).splitlines()[0]}"
            raise UserError(what, path, "fetch or write it again") from None

    def locate(row: int) -> str:
        return f"{path}, row {row + 1}"

    part = _part(table, names, path, locate, taken, reading.decimal)
    yield part._replace(header=() if reading.columns else tuple(fields))


def json_lines(
    path: Source, reading: Reading, columns: Collection[str], scale: RatingScale | None = None
) -> Iterator[Part]:
    """Read some columns of a file with a JSON object in each line.

    The first object says which columns there are and which of them are text; where bad lines are left out, the first
    that is like most of the first objects without a missing value.

    Args:
        scale: as in `parsing.delimited`.

    Raises:
        UserError: if a line is no object, columns cannot be identified, or a value is of another type than in this one.
    """
    import pyarrow.json as pjson  # as in `parquet`

    skips = reading.skip_bad > 0
    found = ((number, _object(text)) for number, text in lines(path, reading.encoding, strict=not skips))
    number, record = next(found, (1, None)) if not skips else _typical(found, reading, columns)
    where = f"{path}, line {number}"
    if record is None:
        do = "write one object in each line: jq -c . FILE, or jq -c '.[]' FILE for a list"
        raise UserError("the line is not one JSON object", where, do)
    fields = list(record)
    places, taken = columns_by_name(fields, reading, where, columns)
    names = {name: fields[place] for name, place in places.items() if name in columns}
    kinds = {**KINDS, int: pa.float64()}  # of ratings: 4 may stand above 4.5
    schema = pa.schema(
        (names[name], (kinds if name == "stars" else KINDS).get(type(record[names[name]]), pa.utf8())) for name in names
    )
    fault = _fault(names, record, number, reading, scale)
    plain = not skips and reading.encoding == "utf-8" and number == 1
    kept = None if plain else bad_lines.kept(path, 0, reading, fault)
    try:
        with opened(path) if kept is None else kept.stream() as stream:
            options = pjson.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
            table = pjson.read_json(stream, parse_options=options)
            table.validate(full=True)  # texts are valid
    except pa.ArrowException as error:
        if kept is None:
            bad_lines.kept(path, 0, reading, fault)
        what = f"the file cannot be parsed: {str(error).splitlines()[0]}"
        raise UserError(what, path, "check it") from None

    def locate(row: int) -> str:
        numbered = (number for number, _ in lines(path, reading.encoding))
        return f"{path}, line {next(itertools.islice(numbered, row, None), '?')}"

    part = _part(table, names, path, kept.locate if kept else locate, taken, reading.decimal)
    yield part._replace(notes=kept.notes if kept else (), header=() if reading.columns else tuple(fields))


def _object(text: str) -> dict[str, Any] | None:
    """Return the JSON object that a line is, if it is one, of valid text."""
    try:
        found = json.loads(text)
        if "\\u" in text:
            json.dumps(found, ensure_ascii=False).encode()  # half of a surrogate pair is no text
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _typical(
    found: Iterable[tuple[int, dict[str, Any] | None]], reading: Reading, columns: Collection[str]
) -> tuple[int, dict[str, Any] | None]:
    """Return the first object, with its line, that is like most of the first ones without a missing value.

    Args:
        found: lines and their objects, None for a line that is no object.
    """
    objects = ((number, record) for number, record in found if record is not None)
    first = list(itertools.islice(objects, FIRST_LINES))
    kinds = [_kinds(record, reading, columns) for _, record in first]
    most = collections.Counter(filter(None, kinds)).most_common(1)
    return first[kinds.index(most[0][0]) if most else 0] if first else (1, None)


def _kinds(record: dict[str, Any], reading: Reading, columns: Collection[str]) -> frozenset[tuple[str, str]]:
    """Return of which kind each value of an object is, by column; nothing where one is missing."""
    try:
        places, _ = columns_by_name(list(record), reading, "", columns)
    except UserError:
        return frozenset()
    values = list(record.values())
    kinds = {(name, _kind(values[place])) for name, place in places.items() if name in columns}
    return frozenset(kinds if all(kind != MISSING for _, kind in kinds) else ())


def _fault(
    names: dict[str, str], typical: dict[str, Any], number: int, reading: Reading, scale: RatingScale | None
) -> bad_lines.Fault:
    """Return what finds the fault of a line.

    Args:
        names: names in the file, by column.
        typical: an object whose values are of the right kinds.
        number: its line.
    """
    of_values = bad_lines.of_values_in(list(names), reading, scale)

    def fault(line: str) -> str | None:
        record = _object(line)
        if record is None:
            return "the line is not one JSON object"
        values = {name: record.get(field) for name, field in names.items()}
        texts = {name: "" if value is None else str(value) for name, value in values.items()}
        if "stars" in names and not isinstance(values["stars"], str):
            texts["stars"] = texts["stars"].replace(".", reading.decimal)  # as `_columns` does
        if wrong := of_values(texts):
            return wrong
        for name, value in values.items():
            kinds = [_kind(found) for found in (value, typical[names[name]])]
            if kinds[0] != kinds[1]:
                return f"the {name} is {kinds[0]}, and {kinds[1]} in line {number}"
        return None

    return fault


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    known = {str: "text", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return known.get(type(value), MISSING)


def _part(
    table: pa.Table, names: dict[str, str], path: Source, locate: Callable[[int], str], taken: str, decimal: str
) -> Part:
    """Convert columns of a table.

    Args:
        names: names in the file, by column.
        decimal: the decimal sign in ratings as text.
    """
    found = {}
    for name, field in names.items():
        convert = _times if name == "time" else _texts
        try:
            found[name] = convert(table[field])
            if name == "stars" and decimal != "." and pa.types.is_floating(table[field].type):
                found[name] = pc.replace_substring(found[name].cast(pa.utf8()), ".", decimal).cast(TEXTS)
        except pa.ArrowException:
            what = f"the column {field!r} cannot be the {name}: it holds {table[field].type}"
            raise UserError(what, path, "name another column: --columns USER,ITEM,STARS") from None
    return of_table(pa.table(found), locate)._replace(taken=((str(path), taken),))


def _texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return ids or ratings as text."""
    if pa.types.is_dictionary(column.type) and pa.types.is_string(column.type.value_type):
        return column.cast(TEXTS)
    return as_text(column).cast(TEXTS)


def _times(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times that are text as numbers or dates, where all of them are."""
    if pa.types.is_dictionary(column.type) or pa.types.is_large_string(column.type):
        column = column.cast(pa.utf8())
    for kind in (pa.int64(), pa.float64(), pa.timestamp("us"), pa.timestamp("us", "UTC")):
        if pa.types.is_string(column.type):
            try:
                return column.cast(kind)
            except pa.ArrowInvalid:
                continue
    return column
