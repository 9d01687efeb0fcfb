"""What pages show of the records of speed."""

import json
from pathlib import Path

import pytest

from benchmarks.measurement import speed_record
from benchmarks.report import maps, speeds
from benchmarks.report.grid import Anchors


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write records of a CPU, of which one has no training, and of a GPU."""

    def write(place: Path, name: str, device: str, rate: float | None, threads: str = "") -> None:
        place.mkdir(exist_ok=True)
        row = {} if rate is None else {"words/s": {"median": rate, "quartiles": [rate, rate], "samples": [rate]}}
        where = {
            "device": device, "cpu": "a kind", "threads": 2, "memory": None, "versions": {}, "commit": "c",
            "dirty": False, "os": "Linux", "python": "3", "matmul_precision": "highest", "NPROC": threads,
        }  # fmt: skip
        tables = {"training": {name: row}} if row else {"others": {}}
        one = {"setting": {}, "tables": tables}
        record = {"version": speed_record.VERSION, "figures": {name: one}, "environment": {name: where}}
        speed_record.path(place, name).write_text(json.dumps(record))
        (place / "speed.md").write_text("")

    write(tmp_path, "lbl", "cpu: cpu", 20.0)
    write(tmp_path, "outputs", "cpu: cpu", None)
    write(tmp_path, "pmf", "cpu: cpu", 10.0, threads="1")
    for name, kind, rate in (("lbl", "H100", 50.0), ("hlbl", "H200", 70.0)):
        write(tmp_path / speed_record.GPU, name, f"gpu: {kind}", rate)
    return tmp_path


def test_models_stand_beside_one_another_by_device(folder: Path) -> None:
    head, _, *rows = speeds.by_device(folder)
    assert head == "|  | CPU | model of the CPU | GPU | model of the GPU | GPU / CPU |"
    assert rows == [
        "| hlbl, words/s |  |  | 70 [70-70] | H200 |  |",
        "| lbl, words/s | 20 [20-20] | a kind, 2 threads | 50 [50-50] | H100 | 2.5 |",
        "| pmf, words/s | 10 [10-10] | a kind, 1 thread |  |  |  |",
    ]


@pytest.mark.parametrize(
    ("setting", "shown"),
    [
        ({"data": "MovieLens 1M", "padding ratio": 1.0, "rounds": 5, "options": ["dropout 0.1"]}, "2.5"),
        ({"data": "planted", "padding ratio": 1.02}, "other data"),
        ({"data": "planted", "padding ratio": 1.3}, "other data and padding ratio"),
        ({"data": "MovieLens 1M", "padding ratio": 0.0, "batch size": 7}, "other batch size"),
    ],
)
def test_speeds_of_other_trainings_are_not_compared(folder: Path, setting: dict, shown: str) -> None:
    on_cpu = {"data": "MovieLens 1M", "padding ratio": 1.0, "rounds": 10, "batch size": 5}
    for place, of in ((folder, on_cpu), (folder / speed_record.GPU, setting)):
        path = speed_record.path(place, "lbl")
        record = json.loads(path.read_text())
        record["figures"]["lbl"]["setting"] = of
        path.write_text(json.dumps(record))
    (line,) = (line for line in speeds.by_device(folder) if line.startswith("| lbl"))
    assert line.endswith(f"| H100 | {shown} |")


def test_records_of_a_gpu_are_shown_beside_those_of_a_cpu(folder: Path) -> None:
    anchors = Anchors()
    shown = [speeds.speeds(path, result, anchors) for path, result in speeds.places(folder)]
    assert [(each.anchor, each.title) for each in shown] == [("speed", "Speed"), ("speed.gpu", "Speed on a GPU")]
    names = [[figures.name for figures in each.figures] for each in shown]
    assert names == [["lbl", "outputs", "pmf"], ["hlbl", "lbl"]]
    assert all((folder / f"{each.folder}{path.name}") == path for each in shown for path in each.paths)
    *_, last = maps.results_map(folder, {}, "there")
    assert last.endswith("| [speed](there/speed.md), [speed on a GPU](there/gpu/speed.md) |")
