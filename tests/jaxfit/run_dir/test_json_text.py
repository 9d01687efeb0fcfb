"""How two values are said to differ."""

import pytest

from jaxfit.run_dir.json_text import difference


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        (3, 4, " (3 there, 4 here)"),
        ({"a": 1, "b": 2, "c": 1}, {"a": 2, "b": 2, "c": 2}, " in a and c (1 there, 2 here)"),
        (
            {"words": 9, "reading": {"encoding": "utf-8", "lower": False}},
            {"words": 9, "reading": {"encoding": "utf-8", "lower": True}},
            " in reading.lower (False there, True here)",
        ),
        ({"rate": {"*": 0.1, "b": 1}}, {"rate": {"*": 0.1, "b": 2}}, " in rate (0.1,b=1 there, 0.1,b=2 here)"),
        ({"reading": {"lower": "no"}}, {}, " in reading ({'lower': 'no'} there, None here)"),
    ],
)
def test_a_difference_names_what_differs(was, now, said):
    assert difference(was, now) == said
