"""What instructions compute and move, of programs with known answers."""

import jax
import jax.numpy as jnp
import pytest
from jax import Array

from benchmarks.profiling.hlo import Module
from benchmarks.profiling.work import moved, operations

TEXT = """\
HloModule jit_run, is_scheduled=true

%rows (table: f32[1000,8], ids: s32[5,1]) -> f32[5,8] {
  %table = f32[1000,8]{1,0} parameter(0)
  %ids = s32[5,1]{1,0} parameter(1)
  %two = f32[] constant(2)
  %twos = f32[5,8]{1,0} broadcast(%two), dimensions={}
  %read = f32[5,8]{1,0} gather(%table, %ids), offset_dims={1}, slice_sizes={1,8}
  ROOT %twice = f32[5,8]{1,0} multiply(%read, %twos)
}

%added (into: f32[1000,8], at: s32[5,1], new: f32[5,8]) -> f32[1000,8] {
  %into = f32[1000,8]{1,0} parameter(0)
  %at = s32[5,1]{1,0} parameter(1)
  %new = f32[5,8]{1,0} parameter(2)
  ROOT %sum = f32[1000,8]{1,0} scatter(%into, %at, %new), to_apply=%add
}

%set (old: f32[], fresh: f32[]) -> f32[] {
  %old = f32[] parameter(0)
  ROOT %fresh = f32[] parameter(1)
}

%replacing (before: f32[1000,8], where: s32[5,1], after: f32[5,8]) -> f32[1000,8] {
  %before = f32[1000,8]{1,0} parameter(0)
  %where = s32[5,1]{1,0} parameter(1)
  %after = f32[5,8]{1,0} parameter(2)
  ROOT %put = f32[1000,8]{1,0} scatter(%before, %where, %after), to_apply=%set
}

%product (left: f32[3,8], right: f32[8,7]) -> f32[3] {
  %left = f32[3,8]{1,0} parameter(0)
  %right = f32[8,7]{1,0} parameter(1)
  %dot.1 = f32[3,7]{1,0} dot(%left, %right), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %zero = f32[] constant(0)
  ROOT %sums = f32[3]{0} reduce(%dot.1, %zero), dimensions={1}, to_apply=%add
}

%nested (whole: f32[1000,8], of: s32[5,1]) -> f32[5] {
  %whole = f32[1000,8]{1,0} parameter(0)
  %of = s32[5,1]{1,0} parameter(1)
  %inner = f32[5,8]{1,0} fusion(%whole, %of), kind=kLoop, calls=%rows
  %zero.1 = f32[] constant(0)
  ROOT %each = f32[5]{0} reduce(%inner, %zero.1), dimensions={1}, to_apply=%add
}

ENTRY %main (T: f32[1000,8], i: s32[5,1], U: f32[5,8], A: f32[3,8], B: f32[8,7]) -> f32[3] {
  %T = f32[1000,8]{1,0} parameter(0)
  %i = s32[5,1]{1,0} parameter(1)
  %U = f32[5,8]{1,0} parameter(2)
  %A = f32[3,8]{1,0} parameter(3)
  %B = f32[8,7]{1,0} parameter(4)
  %at.0 = s32[] constant(0)
  %D = f32[4,3,8]{2,1,0} custom-call(%at.0), custom_call_target="Unknown"
  %E = f32[4,8,7]{2,1,0} broadcast(%at.0), dimensions={}
  %gather.1 = f32[5,8]{1,0} gather(%T, %i), offset_dims={1}, slice_sizes={1,8}
  %gathered = f32[5,8]{1,0} fusion(%T, %i), kind=kLoop, calls=%rows
  %summed = f32[5]{0} fusion(%T, %i), kind=kLoop, calls=%nested
  %scattered = f32[1000,8]{1,0} fusion(%T, %i, %U), kind=kLoop, calls=%added
  %replaced = f32[1000,8]{1,0} fusion(%T, %i, %U), kind=kLoop, calls=%replacing
  %written = f32[1000,8]{1,0} dynamic-update-slice(%T, %U, %at.0, %at.0)
  %slice.1 = f32[2,8]{1,0} dynamic-slice(%T, %at.0, %at.0), dynamic_slice_sizes={2,8}
  %copied = f32[1000,8]{0,1} copy(%T)
  %dot.2 = f32[3,7]{1,0} dot(%A, %B), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %dot.3 = f32[4,3,7]{2,1,0} dot(%D, %E), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}
  %dot.4 = f32[3,7]{1,0} dot(f32[3,8]{1,0:T(8,128)} %A, f32[8,7]{1,0:T(8,128)} %B), lhs_contracting_dims={1}
  %fused = f32[3]{0} fusion(%A, %B), kind=kOutput, calls=%product
  %library = (f32[3,7]{1,0}, s8[64]{0}) custom-call(%A, %B), custom_call_target="__cublas$gemm", \
backend_config={"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"]}}}
  %conv = f32[3,7]{1,0} convolution(%A, %B), dim_labels=bf_io->bf
  %batched = f32[4,3,7]{2,1,0} convolution(%D, %E), window={size=4 stride=3 pad=0_0 lhs_dilate=4}, \
dim_labels=0bf_0io->0bf
  %loop = f32[3]{0} while(%A), condition=%c, body=%b
  %everywhere = f32[3,7]{1,0} all-reduce(%dot.2), to_apply=%add
  ROOT %started = f32[3]{0} copy-start(%A)
}
"""
MODULE = Module(TEXT)
PRODUCT = 2 * 3 * 8 * 7


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("dot.2", PRODUCT), ("dot.3", 4 * PRODUCT), ("dot.4", PRODUCT), ("fused", PRODUCT), ("library", PRODUCT),
        ("conv", PRODUCT),
        # of each place of the kernel one lies on a number, the others on holes
        ("batched", 4 * PRODUCT),
        ("copied", 0), ("gathered", 0), ("D", None), ("loop", None), ("everywhere", None), ("started", None),
    ],
)  # fmt: skip
def test_operations_are_those_of_products(name: str, expected: float | None) -> None:
    assert operations(MODULE, MODULE.instructions[name]) == expected


@pytest.mark.parametrize(
    ("window", "length", "pairs"),
    [("", 4, 8), ("pad=1_1", 6, 10), ("pad=-1_0", 3, 6), ("stride=2", 2, 4), ("rhs_dilate=2", 3, 6)],
)
def test_convolutions_leave_out_padding(window: str, length: int, pairs: int) -> None:
    """Pairs of a place in the result and one in the kernel that lie on a number of the image, which has five."""
    text = f"""\
ENTRY %main (x: f32[5,9,2], k: f32[2,2,3]) -> f32[{length},9,3] {{
  %x = f32[5,9,2]{{2,1,0}} parameter(0)
  %k = f32[2,2,3]{{2,1,0}} parameter(1)
  ROOT %y = f32[{length},9,3]{{2,1,0}} convolution(%x, %k), window={{size=2 {window}}}, dim_labels=0bf_0io->0bf
}}
"""
    module = Module(text)
    assert operations(module, module.instructions["y"]) == 2 * pairs * 9 * 2 * 3


def test_products_of_a_compiled_program_are_counted() -> None:
    """As the compiler fuses and rewrites them; of the table that rows are gathered from, the rows count."""

    def function(table: Array, ids: Array, a: Array, b: Array) -> tuple[Array, Array]:
        return jnp.tanh(a @ b) + 1, 2 * table[ids]

    given = (jnp.ones((10_000, 16)), jnp.arange(50), jnp.ones((32, 48)), jnp.ones((48, 24)))
    module = Module(jax.jit(function).lower(*given).compile().as_text())
    ran = [one for one, _ in module.walk(module.entry) if one.kind not in ("parameter", "tuple", "bitcast", "constant")]
    assert sum(operations(module, one) or 0 for one in ran) == 2 * 32 * 48 * 24
    arrays = 4 * (32 * 48 + 48 * 24 + 32 * 24 + 2 * 50 * 16 + 50)
    assert arrays <= sum(moved(module, one) or 0 for one in ran) < 3 * arrays


ROWS, IDS, TABLE, LEFT, RIGHT = 5 * 8 * 4, 5 * 4, 1000 * 8 * 4, 3 * 8 * 4, 8 * 7 * 4


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gather.1", 2 * ROWS + IDS),
        ("gathered", 2 * ROWS + IDS),
        ("summed", ROWS + IDS + 5 * 4),
        ("scattered", 2 * ROWS + ROWS + IDS),  # rows of the table are read and written, those added are read
        ("replaced", ROWS + ROWS + IDS),
        ("written", 2 * ROWS + 4),
        ("slice.1", 2 * 2 * 8 * 4 + 4),
        ("copied", 2 * TABLE),
        ("dot.2", LEFT + RIGHT + 3 * 7 * 4),
        ("fused", LEFT + RIGHT + 3 * 4),
        ("D", None), ("loop", None), ("everywhere", None), ("started", None),
    ],
)  # fmt: skip
def test_bytes_of_tables_are_those_of_rows(name: str, expected: float | None) -> None:
    assert moved(MODULE, MODULE.instructions[name]) == expected
