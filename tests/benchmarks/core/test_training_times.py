"""How long a stored model trained."""

import pytest

from benchmarks.core import training_times

LINE = {"steps": 10, "train_seconds": 2.0, "examples_per_second": 300.0, "compile_seconds": 1.0}


def test_the_time_of_an_epoch_is_of_all_its_steps() -> None:
    """Not of all words over the rate of those that are sampled, nor of the rest of a resumed epoch."""
    resumed = {**LINE, "steps": 4, "train_seconds": 0.8, "compile_seconds": 1.5}
    of_nothing = {**LINE, "steps": 0, "train_seconds": 0.0, "examples_per_second": 0.0}
    pause = {**LINE, "train_seconds": 50.0, "examples_per_second": 12.0}
    history = [{"step": 10 * n, "epoch": n - 1} for n in (1, 2, 3)]
    found = training_times.timing([LINE, of_nothing, resumed, pause], history)
    assert found == {
        "seconds_per_epoch": pytest.approx(2.0), "examples_per_second": 300.0, "compile_seconds": 1.5,
    }  # fmt: skip
    assert training_times.timing([LINE], history[1:])["seconds_per_epoch"] == pytest.approx(2.0)  # lines were lost
    assert training_times.timing([], []) == training_times.timing([LINE], []) == {}


def test_seconds_of_interrupted_processes_are_added_up(tmp_path) -> None:
    def interrupted(folder) -> None:
        with pytest.raises(KeyboardInterrupt), training_times.timed(folder):
            raise KeyboardInterrupt

    interrupted(tmp_path / "nothing to resume")
    interrupted(tmp_path)
    first = training_times.earlier(tmp_path)
    interrupted(tmp_path)
    assert 0 < first < training_times.earlier(tmp_path)
    assert training_times.earlier(tmp_path / "nothing to resume") == 0
