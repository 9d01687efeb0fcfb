"""The learning curve: its points are those of the journal, and the best epoch is marked."""

import math

import numpy as np
import pytest

from jaxfit.cli import learning_curve


def test_a_curve_has_the_metrics_of_all_epochs_and_the_best_on_validation(tmp_path, monkeypatch):
    figures = []

    def save(figure, path, **options):
        figures.append(figure)
        path.touch()

    monkeypatch.setattr(pytest.importorskip("matplotlib.figure").Figure, "savefig", save)
    shown = {"RMSE": [1.5, 1.0, 0.9, 0.8], "validation RMSE": [math.nan, 1.1, 0.95, 1.2]}
    history = [
        {"epoch": 3 + i, "valid": valid, "shown": {name: values[i] for name, values in shown.items()}}
        for i, valid in enumerate([2.0, 1.21, 0.9025, 1.44])  # the first epochs of the journal are lost
    ]
    learning_curve.draw(history, "pmf", tmp_path / "curve.png", "pmf")
    *curves, best = figures[0].axes[0].get_lines()
    assert [curve.get_label() for curve in curves] == list(shown)
    for curve, values in zip(curves, shown.values(), strict=True):
        np.testing.assert_array_equal(curve.get_xydata(), np.transpose([[4, 5, 6, 7], values]))
    assert list(best.get_xdata()) == [6, 6]
    assert best.get_label() == "best epoch: 6"
    learning_curve.draw(history, "glove", tmp_path / "curve.png", "glove", last=True)
    assert [curve.get_label() for curve in figures[1].axes[0].get_lines()] == list(shown)
