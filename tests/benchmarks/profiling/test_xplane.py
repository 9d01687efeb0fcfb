"""Operations in a trace, as the profiler writes them on a CPU, a GPU and a TPU."""

import os
from pathlib import Path

import pytest
from jax.profiler import ProfileData

from benchmarks.profiling.xplane import Event, newest, read
from jaxfit.errors import UserError

STATS = ("hlo_op", "hlo_module", "_p", "_c")


def trace(folder: Path, *planes: tuple[str, str, list[tuple[str, int, int, dict[str, str | int]]]]) -> Path:
    """Write a trace of planes with one line each: names of both, and events of name, begin and length in ns, stats."""
    lines = []
    for number, (plane, line, events) in enumerate(planes):
        names = {name: place for place, name in enumerate(dict.fromkeys(event[0] for event in events), 1)}
        lines += [f'planes {{ id: {number} name: "{plane}" lines {{ id: 1 name: "{line}"']
        for name, begin, length, stats in events:
            lines.append(f"events {{ metadata_id: {names[name]} offset_ps: {begin}000 duration_ps: {length}000")
            for stat, value in stats.items():
                kind = f'str_value: "{value}"' if isinstance(value, str) else f"uint64_value: {value}"
                lines.append(f"stats {{ metadata_id: {STATS.index(stat) + 1} {kind} }}")
            lines.append("}")
        lines.append("}")
        for name, place in names.items():
            lines.append(f'event_metadata {{ key: {place} value {{ id: {place} name: "{name}" }} }}')
        for place, stat in enumerate(STATS, 1):
            lines.append(f'stat_metadata {{ key: {place} value {{ id: {place} name: "{stat}" }} }}')
        lines.append("}")
    path = folder / "plugins" / "profile" / "now" / "host.xplane.pb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(ProfileData.text_proto_to_serialized_xspace("\n".join(lines)))
    return path


def ours(name: str, **stats: int) -> dict[str, str | int]:
    return {"hlo_op": name, "hlo_module": "jit_run", **stats}


def approximately(*events: Event) -> list[Event]:
    return [event._replace(begin=pytest.approx(event.begin), end=pytest.approx(event.end)) for event in events]


def test_an_operation_of_a_cpu_lasts_until_all_threads_are_done(tmp_path: Path) -> None:
    events = [
        ("dot.1", 1000, 500, ours("dot.1", _p=7)),
        ("end: dot.1", 4000, 1, {"_c": 7}),
        ("add.2", 5000, 300, ours("add.2")),
        ("add.2", 6000, 300, {"hlo_op": "add.2", "hlo_module": "jit_other"}),
        ("ThunkExecutor::Execute", 0, 9000, {}),
    ]
    path = trace(tmp_path, ("/host:CPU", "tf_XLAEigen/1", events))
    expected = approximately(Event("dot.1", "dot.1", 1e-6, 4e-6), Event("add.2", "add.2", 5e-6, 5.3e-6))
    assert read(path, "jit_run") == expected


def test_operations_of_a_gpu_are_kernels_with_a_note_or_without(tmp_path: Path) -> None:
    kernels = [
        ("gemm_128x64", 1000, 500, ours("dot.1")),
        ("splitk_sum", 1500, 100, ours("dot.1")),
        ("loop_add_fusion_3", 2000, 100, {}),
    ]
    host = ("/host:CPU", "python", [("dot.1", 0, 100, ours("dot.1"))])
    path = trace(tmp_path, host, ("/device:GPU:0", "Stream #13(Compute)", kernels))
    assert [(event.operation, event.label) for event in read(path, "jit_run")] == [
        ("dot.1", "gemm_128x64"), ("dot.1", "splitk_sum"), ("loop_add_fusion_3", "loop_add_fusion_3"),
    ]  # fmt: skip


def test_operations_of_a_tpu_are_on_their_line_and_begin_with_their_name(tmp_path: Path) -> None:
    instruction = "%fusion.3 = f32[8]{0} fusion(%p), kind=kLoop"
    planes = (
        ("/device:TPU:0", "XLA Ops", [(instruction, 1000, 500, {})]),
        ("/device:TPU:1", "XLA Modules", [("jit_run(1)", 0, 9000, {})]),
    )
    assert read(trace(tmp_path, *planes), "jit_run") == approximately(Event("fusion.3", instruction, 1e-6, 1.5e-6))


def test_of_several_traces_the_newest_is_read(tmp_path: Path) -> None:
    for age, name in ((0, "a"), (9, "z"), (5, "m")):
        path = tmp_path / "plugins" / "profile" / name / "host.xplane.pb"
        path.parent.mkdir(parents=True)
        path.touch()
        os.utime(path, (1e9 - age, 1e9 - age))
    assert newest(tmp_path).parent.name == "a"


def test_an_invalid_trace_gives_one_line_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="wrote no trace"):
        newest(tmp_path)
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(b"\xff" * 100)
    with pytest.raises(UserError, match="not a trace"):
        read(path, "jit_run")
