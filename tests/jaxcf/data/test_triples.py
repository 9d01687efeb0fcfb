"""Ratings as SGD reads them: all of them, in sections of users, and interleaved in each."""

import numpy as np
import pytest

from jaxcf.data import triples
from jaxcf.data.ratings import Ratings

NUMBERS = [0, 1, 40, 63, 64, 65, 100, 4096, 5000]


def user_after_user(number):
    """Return ratings in the order of 1000 users, each of an item of its own."""
    users = np.repeat(np.arange(1000, dtype=np.int32), 1 + number // 200)[:number]
    return Ratings(users, np.arange(number, dtype=np.int32), np.arange(number, dtype=np.float32))


def require_all(found, data):
    plain = np.stack([data.user, data.item, data.stars.view(np.int32)], axis=1)
    np.testing.assert_array_equal(found[np.argsort(found[:, 1])], plain)


@pytest.mark.parametrize("number", NUMBERS)
def test_interleaving_keeps_all_ratings_and_separates_those_of_a_user(number):
    data = user_after_user(number)
    found = triples.laid_out(data, 1000)
    require_all(found, data)
    for begin in range(0, number, triples.GROUP_SIZE):
        group = found[begin : begin + triples.GROUP_SIZE, 0]
        assert len(np.unique(group)) >= len(group) - 1  # one, where stretches are not quite equal


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("shuffled", [False, True])
def test_a_section_has_the_ratings_of_runs_of_users_interleaved_by_themselves(number, shuffled, monkeypatch):
    data = user_after_user(number)
    if shuffled:
        order = np.random.default_rng(0).permutation(number)
        data = Ratings(*(column[order] for column in data[:3]))
    monkeypatch.setattr(triples, "SECTION_USERS", 150)
    monkeypatch.setattr(triples, "SORTED", 700)
    found, sections = triples.laid_out(data, 1000), triples.num_sections(1000)
    assert sections == 7
    require_all(found, user_after_user(number))
    section = found[:, 0] // triples.RUN % sections
    assert np.all(np.diff(section) >= 0), "one section after another"
    monkeypatch.undo()
    for s in range(sections):
        chosen = data.user // triples.RUN % sections == s
        alone = triples.laid_out(Ratings(*(column[chosen] for column in data[:3])), 1000)
        np.testing.assert_array_equal(found[section == s], alone)


def test_there_are_as_few_sections_as_their_largest_size_allows():
    sizes = [1, triples.SECTION_USERS, triples.SECTION_USERS + 1, 10_000_000]
    assert [triples.num_sections(users) for users in sizes] == [1, 1, 2, 1221]
