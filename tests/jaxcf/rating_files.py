"""Helpers to write files and to compare ratings that were read with rows."""

import numpy as np

from jaxcf.data import reading


def write_file(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def rows(table):
    ratings, catalogue = table.ratings, table.catalogue
    assert ratings.user.dtype == ratings.item.dtype == np.int32
    assert ratings.stars.dtype == np.float32
    columns = [catalogue.users[ratings.user], catalogue.items[ratings.item], ratings.stars]
    if ratings.time is not None:
        assert ratings.time.dtype == np.int64
        columns.append(ratings.time)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def read(*files, **options):
    """Read ratings with their times, where there are some."""
    return reading.read(*files, times=True, **options)
