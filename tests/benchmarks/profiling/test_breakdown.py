"""The time of steps by operation and by part, of a small program and events made up."""

import pytest

from benchmarks.measurement.limits import COPY, OPERATIONS
from benchmarks.profiling import breakdown
from benchmarks.profiling.hlo import Module
from benchmarks.profiling.xplane import Event
from jaxfit.errors import UserError

TEXT = """\
HloModule jit_run, is_scheduled=true

FileNames
1 "/home/somebody/lbl.py"
2 "/home/somebody/tables.py"

FunctionNames
1 "loss"

FileLocations
1 {file_name_id=1 function_name_id=1 line=30 end_line=30 column=1 end_column=9}
2 {file_name_id=2 function_name_id=1 line=41 end_line=41 column=1 end_column=9}

StackFrames
1 {file_location_id=2 parent_frame_id=1}
2 {file_location_id=1 parent_frame_id=2}


%fused (p: f32[4,8], q: f32[8,6]) -> f32[4,6] {
  %p = f32[4,8]{1,0} parameter(0)
  %q = f32[8,6]{1,0} parameter(1)
  ROOT %dot.9 = f32[4,6]{1,0} dot(%p, %q), lhs_contracting_dims={1}, rhs_contracting_dims={0}, \
metadata={op_name="jit(run)/while/body/transpose(jvp(softmax))/dot_general" stack_frame_id=2}
}

%body (t: (f32[4,8], f32[8,6])) -> (f32[4,8], f32[8,6]) {
  %x = f32[4,8]{1,0} parameter(0)
  %y = f32[8,6]{1,0} parameter(1)
  %dot.1 = f32[4,6]{1,0} dot(%x, %y), lhs_contracting_dims={1}, rhs_contracting_dims={0}, \
metadata={op_name="jit(run)/while/body/jvp(softmax)/dot_general" stack_frame_id=2}
  %fusion.2 = f32[4,6]{1,0} fusion(%x, %y), kind=kOutput, calls=%fused
  %copy.3 = f32[4,6]{0,1} copy(%fusion.2), metadata={op_name="jit(run)/while/body/update/add" stack_frame_id=1}
  %call.4 = f32[] call(%copy.3), to_apply=%small
  ROOT %out = (f32[4,6], f32[4,6]) tuple(%dot.1, %copy.3)
}

%small (s: f32[4,6]) -> f32[] {
  %s = f32[4,6]{1,0} parameter(0)
  ROOT %inside = f32[] constant(0)
}

ENTRY %main (a: (f32[4,8], f32[8,6])) -> (f32[4,8], f32[8,6]) {
  %a = (f32[4,8], f32[8,6]) parameter(0)
  ROOT %while.5 = (f32[4,8], f32[8,6]) while(%a), condition=%c, body=%body
}
"""
MODULE = Module(TEXT)
STEPS, LIMITS = 2, {OPERATIONS: 2e9, COPY: 1e9}
PRODUCT = 2 * 4 * 8 * 6
BYTES = 4 * (4 * 8 + 8 * 6 + 4 * 6)


def event(name: str, begin: float, end: float, label: str | None = None) -> Event:
    return Event(name, label or name, begin * 1e-6, end * 1e-6)


EVENTS = [
    event("while.5", 0, 100),
    event("dot.1", 0, 10), event("dot.1", 50, 60),
    # of the two kernels of one fusion, both run at the same time as the other operation for a while
    event("fusion.2", 10, 20, "gemm"), event("fusion.2", 20, 22, "sum"),
    event("fusion.2", 60, 70, "gemm"), event("fusion.2", 70, 72, "sum"),
    event("copy.3", 16, 20), event("copy.3", 72, 76),
    event("call.4", 80, 81),
    event("stranger<float>", 90, 92),
]  # fmt: skip
DEVICE = 10 + 12 + 10 + 12 + 4 + 1 + 2  # microseconds of both steps


@pytest.fixture(scope="module")
def result() -> breakdown.Figures:
    return breakdown.profile(EVENTS, MODULE, STEPS, LIMITS, {"wall": 200e-6})


def test_loops_are_left_out_and_times_that_operations_share_are_divided(result: breakdown.Figures) -> None:
    rows = result["operations"]
    milliseconds = {name: row[breakdown.TIME] * 2e3 for name, row in rows.items()}
    shared = {"dot.1": 20, "fusion.2": 24 - 2, "copy.3": 8 - 2, "stranger<float>": 2, "call.4": 1}
    assert milliseconds == pytest.approx(shared)
    assert list(rows) == ["fusion.2", "dot.1", "copy.3", "stranger<float>", "call.4"]  # the heaviest first


def test_times_of_operations_and_of_parts_add_up_to_that_of_the_device(result: breakdown.Figures) -> None:
    device = result["totals"]["device, ms a step"]
    assert device == pytest.approx(DEVICE * 1e-3 / STEPS)
    for table in (result["operations"], result["parts"]):
        assert sum(row[breakdown.TIME] for row in table.values()) == pytest.approx(device)
        assert sum(row[breakdown.SHARE] for row in table.values()) == pytest.approx(1)
    assert result["totals"]["wall, ms a step"] == pytest.approx(0.1)
    assert result["totals"][breakdown.MATCHED] == pytest.approx(1 - 2 / DEVICE)


def test_rates_are_of_an_operations_own_time(result: breakdown.Figures) -> None:
    for name, taken in (("dot.1", 20e-6), ("fusion.2", 24e-6)):
        row = result["operations"][name]
        assert row["times a step"] == 1  # kernels of one operation count once
        assert row["GFLOP/s"] == pytest.approx(2 * PRODUCT / taken / 1e9)
        assert row["GB/s"] == pytest.approx(2 * BYTES / taken / 1e9)
        assert row[breakdown.ROOFLINE] == pytest.approx(2 * max(PRODUCT / 2e9, BYTES / 1e9) / taken)
    copy = result["operations"]["copy.3"]
    assert copy["GFLOP/s"] is None
    assert copy["GB/s"] == pytest.approx(2 * 2 * 4 * 24 / 8e-6 / 1e9)


def test_what_is_not_known_is_empty(result: breakdown.Figures) -> None:
    row = result["operations"]["stranger<float>"]
    assert {what for what, value in row.items() if value is not None} == {
        "times a step",
        breakdown.TIME,
        breakdown.SHARE,
    }


def test_operations_belong_to_parts_and_lines(result: breakdown.Figures) -> None:
    described = {name: (row["kind"], row["part"], row["source"]) for name, row in result["operations"].items()}
    assert described == {
        "dot.1": ("dot", "softmax", "lbl.py:30"),
        "fusion.2": ("fusion (dot)", "softmax, gradient", "lbl.py:30"),
        "copy.3": ("copy", "update", "tables.py:41"),
        "call.4": ("call", None, None),
        "stranger<float>": (None, None, None),
    }
    assert list(result["parts"]) == [
        "softmax, gradient", "softmax", "update", breakdown.UNMATCHED, breakdown.NO_PART,
    ]  # fmt: skip


def test_kernels_of_a_gpu_are_found_by_their_name() -> None:
    result = breakdown.profile([event("fusion_2", 0, 10)], MODULE, 1, LIMITS, {})
    assert list(result["operations"]) == ["fusion.2"]


def test_calls_whose_operations_have_events_are_left_out() -> None:
    result = breakdown.profile([event("call.4", 0, 10), event("inside", 2, 5)], MODULE, 1, LIMITS, {})
    assert list(result["operations"]) == ["inside"]


def test_a_trace_without_operations_is_one_line() -> None:
    with pytest.raises(UserError, match="no operation of jit_run"):
        breakdown.profile([], MODULE, 1, LIMITS, {})


def test_tables_for_people_sum_what_they_leave_out(result: breakdown.Figures) -> None:
    shown = breakdown.table(result["operations"], 2)
    assert list(shown) == ["fusion.2", "dot.1", "3 more"]
    assert shown["3 more"][breakdown.TIME] == pytest.approx(9e-3 / STEPS)
    assert shown["dot.1"][breakdown.SHARE] == f"{20 / DEVICE:.1%}"
    assert breakdown.summary(result, 2, LIMITS)["shown"] == f"2 of 5 operations, {42 / DEVICE:.1%} of the device's time"


def test_steps_that_a_trace_slowed_down_have_a_warning(result: breakdown.Figures) -> None:
    """The operations of a trace take as long as the steps did; without a trace, these may take a tenth."""
    assert "warning" not in breakdown.summary(result, 2, LIMITS)
    slowed = breakdown.profile(EVENTS, MODULE, STEPS, LIMITS, {"wall": DEVICE / 10 * 1e-6, "wall while traced": 200e-6})
    assert breakdown.summary(slowed, 2, LIMITS)["warning"].startswith("traced steps took 10.0 times as long: shares of")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("jit(run)/while/body/update/mul", "update"),
        ("jit(run)/while/body/jvp(softmax)/while/body/closed_call/dot_general", "softmax"),
        ("jit(run)/while/body/transpose(jvp(prediction))/ijk,...ik->...j/dot_general", "prediction, gradient"),
        ("jit(run)/while/body/transpose(jvp(vmap(prediction)))/dot_general", "prediction, gradient"),
        ("jit(run)/while/body/tree_gradient/tree/gather", "tree"),
        ("jit(run)/gibbs_step/vmap(jit(_threefry_split))/language/while/body/closed_call/add", "gibbs_step"),
        ("jit(run)/gibbs_step/vmap(jit(helper))/inner/add", "inner"),
        ("jit(run)/update/cond/branch_1_fun/jit(_where)/select_n", "update"),
        ("jit(run)/while/body/transpose(jvp())/mul", "gradient"),
        ("jit(run)/while/body/jvp()/mul", None),
        ("jit(run)/shard_map/all_reduce/psum", "all_reduce"),
        ("jit(run)/jit(shuffle)/draw.<locals>.step/while", None),
        ("softmax", None),
        ("", None),
    ],
)
def test_a_part_is_the_innermost_scope(path: str, expected: str | None) -> None:
    assert breakdown.part(path) == expected
