"""What is concluded of a table's rows."""

import numpy as np
import pytest

from benchmarks.core import markdown, statistics
from benchmarks.language.tables import TABLES


def _rows(*values: list[float]) -> list[dict]:
    """T1, T2, … each better than the one before in the thesis."""
    return [
        {
            "label": ["HLBL", f"T{i}"],
            "cells": {"perplexity": {"values": v, "mean": np.mean(v)}},
            "thesis": {"perplexity": 100.0 - i},
            "seeds": list(range(len(v))),
        }
        for i, v in enumerate(values, 1)
    ]


def test_pairs_of_trees_are_resolved_by_two_standard_errors() -> None:
    # differences 1, 2, 3: mean 2, standard error 1/sqrt(3)
    far = _rows([11.0, 22.0, 33.0], [10.0, 20.0, 30.0])
    assert statistics.paired(far, "perplexity") == ([], [])
    assert statistics.paired(_rows([10.0, 20.0, 30.0], [11.0, 22.0, 33.0]), "perplexity") == ([], ["T1/T2"])
    # differences 1, -1, 2: mean 0.67, standard error 0.88
    near = _rows([11.0, 19.0, 32.0], [10.0, 20.0, 30.0])
    assert statistics.paired(near, "perplexity") == (["T1/T2"], [])
    assert statistics.paired(_rows([10.0], [10.0]), "perplexity") == ([], []), "of one seed nothing is known"


def test_the_order_of_table_4_4_is_of_all_pairs_of_trees() -> None:
    trees = _rows([70.0, 71.0], [60.0, 61.0], [60.5, 60.2], [65.0, 66.0])
    ngram = {"label": ["Int. KN2", ""], "cells": {"perplexity": {"values": [60.0], "mean": 60.0}}}
    answers = list(TABLES["table-4.4"].conclude([*trees, ngram]).items())
    assert [answer for _, answer in answers] == [False, ["T2/T3"], ["T2/T4", "T3/T4"]]
    assert [markdown.answer_text(answer) for _, answer in answers] == ["no", "T2/T3", "T2/T4, T3/T4"]
    assert len(TABLES["table-4.4"].conclude([*_rows([70.0], [60.0]), ngram])) == 1, "of one seed: the order"


def test_holm_corrects_for_the_number_of_comparisons() -> None:
    """Against the worked example of Holm's method: each p by the number of those not below it, and never falling."""
    np.testing.assert_allclose(statistics.holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    assert statistics.holm([0.9, 0.8]) == [1.0, 1.0]
    assert statistics.holm([]) == []


def test_a_cell_over_rounds_shows_their_median_and_keeps_all() -> None:
    cell = statistics.over_rounds([1.0, 2.0, 9.0])
    assert (cell["mean"], cell["values"], cell["over"]) == (2.0, [1.0, 2.0, 9.0], "rounds")
    assert cell["sd"] == pytest.approx(np.std([1, 2, 9], ddof=1))
