"""Search of settings: what `--try` says, grids, draws and their distribution, the order of results."""

import math

import numpy as np
import pytest
from scipy.stats import kstest

from jaxfit.errors import UserError
from jaxfit.search import SearchOption, as_number, best_first, draw, grid, parse, value_at


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("order=3", SearchOption("order", ("3",))),
        ("order=3, 4,3", SearchOption("order", ("3", "4"))),
        ("rate=0.03,0.030,1,3e-2", SearchOption("rate", ("0.03", "1"))),
        ("rate=0.01,b=0.1;0.02", SearchOption("rate", ("0.01,b=0.1", "0.02"))),
        ("rate=1e-3..1.", SearchOption("rate", low=1e-3, high=1.0)),
        ("offset=-2..-1", SearchOption("offset", low=-2.0, high=-1.0)),
        ("tree=../tree.npz", SearchOption("tree", ("../tree.npz",))),
    ],
)
def test_what_is_tried(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize("text", ["order", "order=", "=3", "order=3,,4", "order=,", "rate=2..1", "rate=1..1"])
def test_what_cannot_be_tried(text):
    with pytest.raises(UserError, match=r"--try|empty"):
        parse(text)


def test_a_grid_has_all_combinations():
    found = grid([SearchOption("a", ("1", "2")), SearchOption("b", ("x", "y", "z"))])
    assert [setting["a"] + setting["b"] for setting in found] == ["1x", "1y", "1z", "2x", "2y", "2z"]
    with pytest.raises(UserError, match="--trials N"):
        grid([SearchOption("a", low=0.0, high=1.0)])


def test_draws_are_of_the_seed_and_begin_alike():
    tried = [
        SearchOption("a", ("1", "2", "3")),
        SearchOption("b", low=0.1, high=10.0),
        SearchOption("c", low=1, high=500, whole=True),
    ]
    found = draw(tried, 20, seed=4)
    assert found == draw(tried, 20, seed=4)
    assert found[:7] == draw(tried, 7, seed=4)
    assert found != draw(tried, 20, seed=5)
    assert len({tuple(setting.values()) for setting in found}) == 20


def test_all_settings_of_lists_are_drawn_and_no_more():
    tried = [SearchOption("a", ("1", "2")), SearchOption("n", low=1, high=3, whole=True)]
    every = {(setting["a"], setting["n"]) for setting in draw(tried, 6, seed=1)}
    assert every == {(a, n) for a in "12" for n in "123"}
    with pytest.raises(UserError, match="only 6 different"):
        draw(tried, 7, seed=1)


@pytest.mark.parametrize(
    ("low", "high", "cdf"),
    [
        (1.0, 9.0, lambda x: (x - 1) / 8),
        (-1.0, 20.0, lambda x: (x + 1) / 21),
        (0.0, 20.0, lambda x: x / 20),
        (0.01, 1.0, lambda x: 1 + np.log10(x) / 2),
        (1.0, 10.0, np.log10),
    ],
)
def test_numbers_are_uniform_or_their_logarithms_are(low, high, cdf):
    draws = np.random.default_rng(0).random(2000)
    values = np.array([float(value_at(SearchOption("x", low=low, high=high), u)) for u in draws])
    assert low <= values.min() < values.max() <= high
    assert kstest(values, cdf).pvalue > 1e-3


@pytest.mark.parametrize(("low", "high"), [(1, 6), (-3, 3), (2, 40)])
def test_whole_numbers_stay_whole_and_all_occur(low, high):
    values = [
        value_at(SearchOption("n", low=low, high=high, whole=True), u) for u in np.linspace(0, 1, 4000, endpoint=False)
    ]
    assert sorted({int(value) for value in values}) == list(range(low, high + 1))
    share = values.count(str(low)) / len(values)
    expected = math.log((low + 1) / low) / math.log((high + 1) / low) if low == 2 else 1 / (high - low + 1)
    assert share == pytest.approx(expected, abs=1e-3)


def test_the_best_come_first_and_what_is_not_finite_last():
    trials = [{"score": score, "trial": number} for number, score in enumerate([2.0, None, 1.0, math.nan, 3.0, 1.0])]
    assert [trial["trial"] for trial in best_first(trials, False)] == [2, 5, 0, 4, 1, 3]
    assert [trial["trial"] for trial in best_first(trials, True)] == [4, 0, 2, 5, 1, 3]


def test_numbers_of_texts():
    assert [as_number(text) for text in ("3", "0.5", "1e-5", "none", "nan", "0.1,b=2")] == [
        3, 0.5, 1e-5, "none", "nan", "0.1,b=2",
    ]  # fmt: skip
