"""What is read from a compiled program's text, by a small one made up."""

import pytest

from benchmarks.profiling.hlo import Instruction, Module, Size, dimensions, elements, size

TEXT = """\
HloModule jit_run, is_scheduled=true

%fused (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %m = f32[8]{0} multiply(%p, %p)
}

%inner_condition (t: (s32[], f32[8])) -> pred[] {
  %t = (s32[], f32[8]) parameter(0)
  %n = s32[] constant(5)
  ROOT %less = pred[] compare(%i, %n), direction=LT
}

%inner_body (t: (s32[], f32[8])) -> (s32[], f32[8]) {
  %f = f32[8]{0} fusion(%x), kind=kLoop, calls=%fused, backend_config={"estimated_cycles":"100"}
  %r = f32[8]{0} all-reduce(%f), replica_groups={}, to_apply=%add
  ROOT %out = (s32[], f32[8]) tuple(%i, %r)
}

%other_body (t: (s32[], f32[8])) -> (s32[], f32[8]) {
  ROOT %u = (s32[], f32[8]) parameter(0)
}

%step_body (t: (s32[], f32[8])) -> (s32[], f32[8]) {
  %g = f32[130,7]{1,0:T(8,128)} fusion(%x), kind=kLoop, calls=%fused, backend_config={"estimated_cycles":"30"}
  %w = (s32[], f32[8]) while(%x), condition=%inner_condition, body=%inner_body
  ROOT %out2 = (s32[], f32[8]) tuple(%i, %g)
}

ENTRY %main (a: f32[130,7], b: s32[3]) -> f32[8] {
  %a = f32[130,7]{1,0:T(8,128)} parameter(0)
  %b = s32[3]{0:T(128)} parameter(1)
  %w1 = (s32[], f32[8]) while(%x), condition=%c, body=%step_body, metadata={op_name="jit(run)/while/body/while"}
  ROOT %w2 = (s32[], f32[8]) while(%x), condition=%c, body=%other_body, metadata={op_name="jit(run)/while/body/while"}
}
"""


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("f32[]", Size(4, 4)),
        ("f32[130,7]{1,0:T(8,128)}", Size(130 * 7 * 4, 136 * 128 * 4)),
        ("f32[130,7]{0,1:T(8,128)}", Size(130 * 7 * 4, 8 * 256 * 4)),
        ("bf16[3,16]", Size(96, 96)),
        ("(s32[3]{0:T(128)}, pred[2])", Size(14, 514)),
    ],
)
def test_arrays_lie_in_tiles(shape: str, expected: Size) -> None:
    assert size(shape) == expected


def test_totals_are_of_one_step_and_of_all_turns_of_its_loops() -> None:
    module = Module(TEXT)
    assert (module.entry, module.step) == ("main", "step_body")
    assert module.cycles() == 30 + 5 * 100
    assert module.collectives() == {"all-reduce": 5 * 32}
    assert module.operations() == {"fusion": 6, "while": 1, "all-reduce": 5}
    assert module.arrays() == Size(130 * 7 * 4 + 12, 136 * 128 * 4 + 512)
    assert module.temporaries() == Size(130 * 7 * 4 + 32, 136 * 128 * 4 + 32)


def test_instructions_say_what_they_take_run_and_come_from() -> None:
    module = Module(TEXT)
    assert module.name == "jit_run"
    assert module.instructions["m"].root
    assert not module.instructions["g"].root
    assert module.instructions["f"].operands == ["x"]
    assert module.instructions["out"].operands == ["i", "r"]
    assert module.instructions["w"].called == ["inner_body"]
    assert module.instructions["w1"].op_name == "jit(run)/while/body/while"
    assert module.instructions["g"].op_name == ""
    assert module.source(module.instructions["g"]) is None
    branches = '%x, %y), branch_computations={%one, %two}, metadata={op_name="jit(f)/cond"}'
    one = Instruction("c", "f32[]", "conditional", branches)
    assert (one.operands, one.called) == (["x", "y"], ["one", "two"])
    typed = Instruction("d", "f32[8]", "add", "f32[8]{0:T(128)} %a.1, f32[] /*index=1*/ %b-2), metadata={}")
    assert typed.operands == ["a.1", "b-2"]


def test_dimensions_and_numbers_of_elements() -> None:
    assert (dimensions("f32[130,7]{1,0:T(8,128)}"), dimensions("s32[]"), dimensions("token")) == ([130, 7], [], [])
    assert (elements("f32[130,7]{1,0}"), elements("pred[]"), elements("(s32[3], f32[2,2])")) == (910, 1, 7)


FALLING_BACK = """\
%asked (p: f32[8]) -> f32[8] {
  ROOT %t = f32[8]{0} all-to-all(%p), metadata={op_name="body/all_to_all"}
}

%asked_of_all (p: f32[8]) -> f32[8] {
  %q = f32[64]{0} all-reduce(%p)
  ROOT %k = f32[8]{0} slice(%q), metadata={op_name="body/rows_to_all_devices/slice"}
}

%to_all (t: f32[64]) -> f32[64] {
  ROOT %s = f32[64]{0} all-reduce(%t)
}

ENTRY %main (a: f32[8]) -> f32[8] {
  %c = f32[8]{0} conditional(%p, %a, %a), branch_computations={%asked_of_all, %asked}
  %w = f32[64]{0} while(%c), condition=%n, body=%to_all, metadata={op_name="body/rows_to_all_devices/while"}
  ROOT %r = f32[8]{0} all-reduce(%c)
}
"""


def test_collectives_are_those_of_a_step_whose_exchange_of_rows_does_not_fall_back() -> None:
    module = Module(FALLING_BACK)
    assert module.collectives() == {"all-to-all": 32, "all-reduce": 32}
    assert module.operations()["all-reduce"] == 3
