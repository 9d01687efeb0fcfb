"""The record of speeds for people."""

from pathlib import Path

from benchmarks.core.statistics import quartiles
from benchmarks.measurement import speed_record
from benchmarks.speed import page

WHERE = {
    "commit": "abc", "dirty": True, "cpu": "a processor", "threads": 2, "memory": 8e9, "os": "Linux",
    "device": "cpu: cpu", "python": "3.11", "versions": {"jax": "0.10"},
    "matmul_precision": "highest", "XLA_FLAGS": "--x",
}  # fmt: skip
FIGURES = {
    "setting": {"words": 10_000, "rates": [0.1, 0.2], "model": "lbl"},
    "tables": {
        "training": {
            "jaxlm": {"words/s": quartiles([1000.0, 2000.0, 3000.0]), "RMSE": 0.85},
            "PyTorch": {
                "words/s": {"median": 7.5, "quartiles": [7, None], "samples": [7, 8, None]},
                "found": "not reached",
            },
        }
    },
    "curves": {"by size": {"x": "words", "y": "words/s", "log": True, "lines": {"jaxlm": [[1, 2], [10, 3]]}}},
}


def test_contenders_are_rows_and_samples_are_medians_with_quartiles(tmp_path: Path) -> None:
    speed_record.write(tmp_path, "lbl", FIGURES, WHERE)
    page.write(tmp_path, FIGURES, "lbl")
    lines = (tmp_path / page.PAGE).read_text().splitlines()
    expected = [
        "## lbl",
        "* words: 10,000",
        "* rates: 0.1, 0.2",
        "### training",
        "|  | words/s | RMSE | found |",
        "|---|--:|--:|--:|",
        "| jaxlm | 2,000 [1,500-2,500] | 0.85 |  |",
        "| PyTorch | 7.5 [7-∞] |  | not reached |",
        "![lbl: by size](speed.lbl-by-size.png)",
        "At commit abc with changes, on a processor, 2 threads, 8 GB, Linux; device cpu: cpu; Python 3.11, jax 0.10; "
        "matrix precision highest, XLA_FLAGS --x.",
    ]
    assert [line for line in lines if line in expected] == expected
    assert (tmp_path / "speed.lbl-by-size.png").read_bytes().startswith(b"\x89PNG")


def test_what_was_missed_and_what_is_shown_already(tmp_path: Path) -> None:
    assert page.in_words(quartiles([float("inf")] * 3)) == "missed"
    limits = {"copy": {"10⁹/s": quartiles([1.0, 2.0])}}
    figures = {"setting": {}, "tables": {"limits": limits}, "search": {"jaxcf": {"space": "k 8 to 32"}}}
    lines = page.markdown(
        {"figures": {"lbl": figures, "nplm": figures}, "environment": dict.fromkeys(("lbl", "nplm"), WHERE)}
    )
    assert lines.count("| copy |") == lines.count("As under lbl.") == 1
    assert lines.count("* searched of jaxcf: k 8 to 32") == 2
