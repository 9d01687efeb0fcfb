"""Readers of ratings, one for each data set: from the publisher's files to split ratings."""

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from benchmarks.data import first_use
from jaxcf.data import splits
from jaxcf.data.ratings import Dataset, Pairs, Ratings, digest, join
from jaxcf.data.reading import Reading, read, read_dataset
from jaxcf.data.synthetic import Planted, planted
from jaxfit.errors import UserError

STARS = Reading(scale="1,5,1")
FOLDS = 5  # of MovieLens 100K
CHUNK = 1 << 22  # training ratings that are compared at a time
TEST, VALID = 0.1, 0.05  # of all ratings, and of the others, where a data set has no split of its own
# sha256 over users, movies and stars of MovieLens 1M in the publisher's order: with or without time stamps
ML_1M = "784a05add6418936868b68b3bab8dfb2a787d1cece6d3102d5540b4f8ced33ca"


class RatingSet(NamedTuple):
    """Split ratings, and the pairs of user and item in validation and test, for conditional models."""

    data: Dataset
    held_out: Pairs  # of validation and test, also of a test whose ratings are not known
    again: "Callable[[int], RatingSet] | None" = None  # gives split 1, 2, …; None: there is one split


def of(
    data: Dataset, name: str, note: str, again: Callable[[int], RatingSet] | None = None, unknown: Pairs | None = None
) -> RatingSet:
    """Name a data set and gather its validation and test pairs.

    Args:
        data: the split ratings.
        name, note: of the data set, for records.
        again: as in `RatingSet`.
        unknown: test pairs without known ratings.

    Raises:
        UserError: a pair of user and item is in two parts: no model may see what it is judged on.
    """
    parts: list[Ratings | Pairs] = [part for part in (data.valid, data.test, unknown) if part is not None]
    pairs = Pairs(np.concatenate([p.user for p in parts]), np.concatenate([p.item for p in parts]))
    of_training, repeated = _leaks(data.train, pairs, data.catalogue.num_items)
    if of_training or repeated:
        what = f"{name} leaks: of its validation and test ratings {of_training:,} are in training"
        raise UserError(f"{what}, {repeated:,} held out twice", note, "each rating belongs to one part: split it again")
    sha256 = digest(data.train, data.valid, data.catalogue)
    return RatingSet(data._replace(name=name, note=note, sha256=sha256), pairs, again)


def _leaks(train: Ratings, held_out: Pairs, num_items: int) -> tuple[int, int]:
    """Count the training ratings whose pair is held out, and the pairs that are held out more than once."""
    pairs = np.sort(held_out.user.astype(np.int64) * num_items + held_out.item)
    # fast: the low bits of a pair already show that most training ratings are not held out
    mask = (1 << (8 * len(pairs)).bit_length()) - 1
    marked = np.zeros(mask + 1, bool)
    marked[pairs & mask] = True
    found = 0
    for begin in range(0, len(train.user), CHUNK):
        piece = slice(begin, begin + CHUNK)
        keys = train.user[piece].astype(np.int64) * num_items + train.item[piece]
        few = np.sort(keys[marked[keys & mask]])
        found += int(np.sum(np.searchsorted(pairs, few, "right") > np.searchsorted(pairs, few, "left")))
    return found, int(np.sum(pairs[1:] == pairs[:-1]))


def at_random(data: Dataset, number: int) -> RatingSet:
    """Split all ratings at random: a tenth for the test, a twentieth of the rest for validation.

    Its own validation ratings, by which recipes are chosen, go to training, so that no test has those ratings.
    """
    parts = [part for part in (data.train, data.test) if part is not None]
    total = sum(len(part.user) for part in (*parts, data.valid))
    share = total / (total - len(data.valid.user))
    split = splits.random(jax.random.key(number), join(*parts), share * (1 - TEST) * VALID, share * TEST)
    again = data._replace(train=join(split.train, data.valid), valid=split.valid, test=split.test)
    return of(again, data.name, f"random split {number}, 85.5/4.5/10")


def drawn(config: Planted, shares: tuple[float, float] | None) -> RatingSet:
    """Draw planted ratings, split by the thesis' scheme, or at random with shares for validation and test."""
    key = jax.random.key(0)
    if shares is None:
        data, how = planted(key, config, scheme="thesis"), "nine latest ratings of each user held out"
    else:
        data, how = planted(key, config, *shares), "random split"
    return of(data, "planted", f"{data.note}, {how}", partial(at_random, data))


def ml_100k(paths: list[Path], sha256: str, note: str) -> RatingSet:
    """Read MovieLens 100K, split by time, as the thesis' data are (§5.4.1)."""
    table = read(paths[:1], STARS, times=True)
    split = splits.thesis(jax.random.key(0), table.ratings)
    data = Dataset("ml-100k", *split, table.catalogue, "", "")
    again = partial(fold, paths[1:])
    return of(data, "ml-100k", f"{note}; nine latest ratings of each user held out", again)


def fold(paths: list[Path], number: int) -> RatingSet:
    """Read a fold of MovieLens 100K, u1 to u5, as published; validation is taken from its training.

    Args:
        paths: training and test file of each fold.
        number: of the fold, from 1.

    Raises:
        UserError: there is no such fold.
    """
    if not 1 <= number <= FOLDS:
        raise UserError(f"MovieLens 100K has {FOLDS} folds, not {number}", "--seeds", f"give at most {FOLDS}")
    train, test = paths[2 * number - 2 : 2 * number]
    data = read_dataset([train], test=[test], reading=STARS, test_ids=True).dataset
    data = splits.carve(jax.random.key(0), data, VALID)
    return of(data, "ml-100k", f"fold u{number}, validation a twentieth of its training at random")


def ml_1m(paths: list[Path], sha256: str, note: str) -> RatingSet:
    """Read MovieLens 1M: a tenth at random is for the test, a twentieth of the rest for validation.

    Raises:
        UserError: the ratings are not the published ones.
    """
    table = read(paths, STARS)
    ratings = table.ratings._replace(time=None)  # with or without: the same data
    users, items = table.catalogue.users[ratings.user], table.catalogue.items[ratings.item]
    content = np.stack([users, items, ratings.stars.astype(np.int64)]).astype("<i4")
    found = hashlib.sha256(content.tobytes()).hexdigest()
    if found != ML_1M:
        what = f"not the published ratings: sha256 {found[:12]}… of users, movies and stars"
        raise UserError(what, paths[0], "fetch the file again")
    split = splits.random(jax.random.key(0), ratings, (1 - TEST) * VALID, TEST)
    data = Dataset("ml-1m", *split, table.catalogue, "", "")
    return of(data, "ml-1m", f"{note}; random split, 85.5/4.5/10", partial(at_random, data))


def moviedata(paths: list[Path], sha256: str, note: str) -> RatingSet:
    """Read MovieLens 1M as Salakhutdinov and Mnih split it; validation is taken from its training."""
    whole = read_dataset(paths, reading=STARS, test_ids=True).dataset

    def carved(number: int) -> RatingSet:
        data = splits.carve(jax.random.key(number), whole, VALID)
        whole_note = f"{note}; its own test, validation a twentieth of its training at random"
        return of(data, "moviedata", whole_note, carved)

    return carved(0)


def netflix(paths: list[Path], sha256: str, note: str) -> RatingSet:
    """Read the Netflix Prize: `probe.txt` is validation, taken out of training; `qualifying.txt` the test.

    The data set lacks the ratings of the test, but has its pairs of user and movie, which conditional models use. As
    its publisher has withdrawn it, no sha256 is published: the first use records them, and later ones must find the
    same files.
    """
    probe, folder = paths[0], paths[0].parent
    first_use.require_same(folder, sorted(folder.rglob("*.txt*")))
    qualifying = [path for path in (folder / "qualifying.txt", folder / "qualifying.txt.gz") if path.is_file()]
    files = read_dataset([folder], [probe], rated=qualifying, reading=STARS)
    return of(files.dataset, "netflix", f"{note}; validation is the probe", unknown=files.rated)
