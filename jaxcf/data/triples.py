"""Ratings as SGD reads them: triples of user, item and stars, in groups. Each epoch draws only the order of the groups.

Files are often ordered by user, and users by the time of their first rating. Triples are therefore interleaved, so that
the ratings of a group are of users from all over the file. The rows of many users do not fit into a CPU's cache: users
are then divided into sections, and the ratings of each section are interleaved separately. The engine divides the
groups into as many equal parts. As sections have nearly equal numbers of ratings, a part reads the rows of one or two
of them.
"""

from collections.abc import Sequence

import numpy as np

from jaxcf.data.ratings import Ratings
from jaxfit.files.large_arrays import empty, filled, pieces

GROUP_SIZE = 64  # maximum ratings in a group; they come from all over a section
SECTION_USERS = 1 << 13  # maximum users in a section
RUN = 16  # neighbouring users in the same section: their biases fill a cache line
SORTED = 1 << 18  # ratings that are sorted at a time
TURNS = 1 << 10  # groups that are interleaved at a time, which stay in a CPU's cache


def num_sections(num_users: int) -> int:
    """Return the number of sections of users."""
    return max(1, -(-num_users // SECTION_USERS))


def laid_out(ratings: Ratings, num_users: int) -> np.ndarray:
    """Return the ratings section after section, interleaved in each.

    Runs of `RUN` neighbouring users are assigned to the sections in turn. The ratings of a section are taken in turn
    from `GROUP_SIZE` equal stretches, the last of which may be shorter.

    Returns:
        int32[N, 3]: user, item and the bits of the stars; so a rating is read in one piece.
    """
    columns = (ratings.user, ratings.item, ratings.stars.view(np.int32))
    triples, sections = empty((len(ratings.user), 3), np.int32), num_sections(num_users)
    if sections == 1:
        _interleave(columns, triples)
    else:
        for section in _by_section(columns, sections, triples):
            _interleave(section.copy().T, section)
    return triples


def _by_section(columns: Sequence[np.ndarray], sections: int, triples: np.ndarray) -> list[np.ndarray]:
    """Write columns, 3 of [N], as triples, [N, 3], section after section; return the triples of each."""
    section = filled(len(triples), np.min_scalar_type(sections), lambda piece: columns[0][piece] // RUN % sections)
    parts = list(pieces(len(triples), SORTED))
    counts = [np.bincount(section[part], minlength=sections) for part in parts]
    ends = np.cumsum(sum(counts, np.zeros(sections, np.int64)))
    found = np.split(triples, ends[:-1])
    written = [0] * sections
    for part, count in zip(parts, counts, strict=True):
        order = np.argsort(section[part], kind="stable")
        ordered = np.stack([column[part][order] for column in columns], axis=1)
        last = 0
        for s, number in enumerate(count.tolist()):
            found[s][written[s] : written[s] + number] = ordered[last : last + number]
            written[s], last = written[s] + number, last + number
    return found


def _interleave(columns: Sequence[np.ndarray] | np.ndarray, triples: np.ndarray) -> None:
    """Write columns, 3 of [N], as triples, [N, 3], taken in turn from `GROUP_SIZE` stretches."""
    number, end = len(triples), 0
    length = max(1, -(-number // GROUP_SIZE))  # of a stretch
    last = max(0, number - 1) // length  # stretch, which may be shorter
    for first, stop, stretches in ((0, number - last * length, last + 1), (number - last * length, length, last)):
        for turns in pieces(stop - first, TURNS):
            begin, end = end, end + (turns.stop - turns.start) * stretches
            block = triples[begin:end].reshape(turns.stop - turns.start, stretches, 3)
            for stretch in range(stretches):
                place = stretch * length + first
                for of_triple, column in enumerate(columns):
                    block[:, stretch, of_triple] = column[place + turns.start : place + turns.stop]
