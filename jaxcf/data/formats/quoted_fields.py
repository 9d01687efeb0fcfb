"""Quoted fields in lines of delimited files: where they end for Arrow, and delimiters inside and outside them.

A quoted field begins with a quotation mark, two of which stand for one inside it. It ends at the next other one; what
follows up to the delimiter belongs to the field as it is. It does not hold the end of a line, which for Arrow is also a
carriage return alone. Arrow has delimiters of one character only.
"""

import contextlib
import csv
import functools
import re

_SEPARATORS = ("\x1f", "\x1e")  # in place of a delimiter of several characters: the first that it does not consist of


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
    before, within = rb'[^"\r\n%b]*+(?:""[^"\r\n%b]*+)*+' % (new, new), rb'[^"\r\n]*+(?:""[^"\r\n]*+)*+'
    field = rb'"(?<![^\r\n%b]")%b%b%b"' % (new, before, new, within)
    return re.sub(field, lambda match: match[0].replace(new, old), text.replace(old, new))


def split(line: str, delimiter: str) -> list[str]:
    """Split a line into its fields, and take the quotation marks off quoted ones."""
    text = separated(line.encode("utf-8", "surrogatepass"), delimiter).decode("utf-8", "surrogatepass")
    separator = separator_of(delimiter)
    with contextlib.suppress(csv.Error):  # a field is of more than 131,072 characters
        return next(csv.reader([text.replace("\r", " ")], delimiter=separator), [])
    return text.split(separator)


@functools.lru_cache
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
