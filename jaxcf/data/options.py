"""How files of ratings are read, as commands and calls choose it."""

import codecs
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from jaxfit.errors import UserError
from jaxfit.recipe import option, require_bounds


@dataclass(frozen=True)
class Reading:
    """How files of ratings are read; what is not given is detected from the file."""

    format: Literal["auto", "delimited", "json", "parquet", "netflix", "mat"] = option(
        "auto", "layout of the ratings files; json: an object in each line"
    )
    columns: str | None = option(
        None,
        "the columns of user, item, stars and time (the last one or two are optional), by "
        "name or by number from 1, for example userId,movieId,rating or 2,1,3; of files of pairs only user and "
        "item are used",
        metavar="USER,ITEM,…",
        first=True,
    )
    delimiter: str | None = option(
        None, "what separates columns: tab, comma, space, or the characters themselves, e.g. ::", metavar="CHARACTERS"
    )
    scale: str | None = option(
        None, "the possible ratings, as LOW,HIGH,STEP; step 0 for any value in between", metavar="LOW,HIGH,STEP"
    )
    duplicates: Literal["error", "last", "first", "mean", "sum"] = option(
        "error", "what to do if a user has rated an item more than once; counts are added up: sum"
    )
    encoding: str = option("utf-8", "encoding of the ratings files")
    decimal: Literal[".", ","] = option(".", "decimal sign of the ratings, as in 3.5 or 3,5")
    skip_bad: int = option(0, "leave up to N lines of each file out that cannot be read, and say so", low=0)

    def __post_init__(self) -> None:
        with suppress(LookupError, ValueError):  # an encoding that is unknown is an error where files are opened
            if codecs.lookup(self.encoding).name == "utf-8":  # which has other names, such as UTF-8 and utf8
                object.__setattr__(self, "encoding", "utf-8")

    @classmethod
    def of(cls, given: Mapping[str, Any], counts: bool = False) -> "Reading":
        """Return how files are read, given some fields by name; the counts of a pair are added up by default.

        Raises:
            UserError: a number is out of its bounds; stars, which are not counts, are to be added up.
        """
        reading = cls(**{"duplicates": "sum" if counts else "error", **given})
        require_bounds(reading)
        if reading.duplicates == "sum" and not counts:
            raise UserError("only counts can be added up, not stars", "--duplicates sum", "give last, first or mean")
        return reading
