"""Quoted fields in lines of delimited files: where they end for Arrow, and delimiters inside and outside them.

A quoted field begins with a quotation mark, two of which stand for one inside it. It ends at the next other one; what
follows up to the delimiter belongs to the field as it is. It does not hold the end of a line, which for Arrow is also a
carriage return alone. Arrow has delimiters of one character only.
"""

import csv
import functools
import re

_SEPARATORS = ("\x1f", "\x1e")  # in place of a delimiter of several characters: the first that it does not consist of


@functools.cache  # it is asked for each line with `--skip-bad`
def separator_of(delimiter: str) -> str:
    """Return the character that separates columns for Arrow: the delimiter, or what replaces several characters."""
    return delimiter if len(delimiter) == 1 else next(other for other in _SEPARATORS if other not in delimiter)


def separated(text: bytes, delimiter: str) -> bytes:
    """Replace a delimiter by its separator, except within quoted fields.

    Args:
        text: lines in UTF-8, in which the separator is only where it is the delimiter.
    """
    old, new = delimiter.encode(), separator_of(delimiter).encode()
    if old == new:
        return text
    # It is replaced everywhere, and put back within quoted fields: these are few, and Python is called for each.
    return _with_separator(new).sub(lambda match: match[0].replace(new, old), text.replace(old, new))


@functools.cache
def _with_separator(separator: bytes) -> re.Pattern[bytes]:
    """Return the regular expression of a quoted field that has a separator in it."""
    before, after = rb'[^"\r\n%b]*+(?:""[^"\r\n%b]*+)*+' % (separator, separator), rb'[^"\r\n]*+(?:""[^"\r\n]*+)*+'
    return re.compile(rb'"(?<![^\r\n%b]")%b%b%b"' % (separator, before, separator, after))


def split(line: str, delimiter: str) -> list[str]:
    """Split a line into its fields, and take the quotation marks off quoted ones."""
    separator = separator_of(delimiter)
    if separator != delimiter:
        line = separated(line.encode("utf-8", "surrogatepass"), delimiter).decode("utf-8", "surrogatepass")
    limit = csv.field_size_limit(len(line))  # by default fields of more than 131,072 characters are an error
    try:
        return next(csv.reader([line.replace("\r", " ")], delimiter=separator), [])
    finally:
        csv.field_size_limit(limit)


@functools.cache
def unended(separator: str) -> tuple[re.Pattern[bytes], str]:
    """Return regular expressions for lines whose last field begins with a quotation mark and does not end.

    Returns:
        of such a line, for Python; of one in a text, for Arrow's RE2.
    """
    separator = f"\\x{ord(separator):02x}"
    quoted = r'"[^"\r\n]*(?:""[^"\r\n]*)*'  # up to the quotation mark at its end
    plain = rf'[^"{separator}\r\n][^{separator}\r\n]*'
    line = rf'(?:(?:{quoted}"(?:{plain})?|{plain})?[{separator}\r])*{quoted}'
    return re.compile(rf"{line}(?:\r|\Z)".encode()), rf"(?:\A|\n){line}(?:[\r\n]|\z)"
