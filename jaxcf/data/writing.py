"""Writing ratings, or counts, to files."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv

from jaxcf.data.ratings import Catalogue, Ratings
from jaxfit.run_dir.atomic import replacing


def write(parts: Mapping[Path, Ratings], catalogue: Catalogue, counts: bool = False) -> None:
    """Write ratings, with ids of their users and items, as CSV files whose header `reading.read` reads.

    Either all are written or none, unless the process is killed while they are put in place: then those that are there
    are complete.

    Args:
        parts: file -> its ratings.
        catalogue: the ids.
        counts: whether the values are counts; if all are 1, only pairs are written.

    Raises:
        UserError: if a file cannot be written.
    """
    pairs = counts and all(np.all(ratings.stars == 1) for ratings in parts.values())
    with ExitStack() as all_written:  # before the first takes its place
        for path, ratings in parts.items():
            users, items = catalogue.users[ratings.user], catalogue.items[ratings.item]
            columns = {"user": users, "item": items}
            if not pairs:
                columns["count" if counts else "stars"] = ratings.stars
            if ratings.time is not None:
                columns["time"] = ratings.time
            temporary = all_written.enter_context(replacing(Path(path)))
            with temporary.open("wb") as file:  # Arrow's own files have errors of their own
                pcsv.write_csv(pa.table(columns), file, pcsv.WriteOptions(quoting_style="needed"))
