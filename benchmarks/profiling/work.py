"""What an instruction of a compiled program computes and moves, counted from the program's text.

Operations are those of matrix products and convolutions, a multiplication and an addition each. Bytes are those of the
arrays that must be read and written at least once: for a table from which rows are gathered, these rows; for one to
which rows are added in place, these rows, read and written. What the text does not say (the inside of a library's
function, a loop that the device takes as a whole, what passes between devices) is None.
"""

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.profiling.hlo import COLLECTIVES, Instruction, Module, dimensions, elements, size

# Library functions for matrix products, and what their configuration says of the dimensions that are summed over.
_PRODUCT = re.compile(r'custom_call_target="[^"]*(?:gemm|matmul)[^"]*"')
_SUMMED = re.compile(r'"lhs_contracting_dimensions":\[([^\]]*)\]')
_CONTRACTED = re.compile(r"lhs_contracting_dims=\{([\d,]*)\}")
_LABELS = re.compile(r"dim_labels=(\w+)_(\w+)->(\w+)")
_WINDOW = re.compile(r"(\w+)=([\dx_\-]+)")
# kinds that need their whole operands, however few of their results are needed
_WHOLE = {
    "cholesky", "convolution", "custom-call", "dot", "fft", "reduce", "reduce-window", "select-and-scatter", "sort",
    "topk", "triangular-solve",
}  # fmt: skip
# a mark that the compiler for TPUs leaves in fusions: it passes its operand on
_MARK = 'custom_call_target="AssumeGatherIndicesInBound"'
_IN_PLACE = ("dynamic-update-slice", "scatter")
_UNKNOWN = {"while", "conditional", "send", "recv", "infeed", "outfeed", "partition-id", *COLLECTIVES}


def operations(module: Module, one: Instruction) -> float | None:
    """Count the multiplications and additions of the products in an instruction; 0 where there are none."""
    if _unknown(one):
        return None
    shapes = [module.instructions[name].shape for name in one.operands if name in module.instructions]
    if one.kind == "dot" or (one.kind == "custom-call" and _PRODUCT.search(one.rest)):
        found = _CONTRACTED.search(one.rest) or _SUMMED.search(one.rest)
        if found is None or not shapes:
            return None
        summed = [dimensions(shapes[0])[int(place)] for place in re.findall(r"\d+", found[1])]
        return 2.0 * math.prod(dimensions(one.shape)) * math.prod(summed)
    if one.kind == "convolution":
        return _convolution(one, *shapes) if len(shapes) == 2 else None
    if one.kind == "custom-call":
        return 0.0 if _MARK in one.rest else None
    if one.kind in ("fusion", "call"):
        inside = [operations(module, each) for name in one.called for each in module.computations.get(name, ())]
        return None if None in inside else sum(each for each in inside if each is not None)
    return 0.0


def moved(module: Module, one: Instruction) -> float | None:
    """Count the minimum number of bytes that an instruction reads from arrays and writes to them."""
    if _unknown(one) or (one.kind == "custom-call" and not _PRODUCT.search(one.rest)):
        return None
    body = _body(module, one)
    if body is None or any(_unknown(each) for each in body if each.kind != "parameter"):
        return None
    return _read(module, body) + _written(body)


def _unknown(one: Instruction) -> bool:
    return one.kind in _UNKNOWN or one.kind.endswith(("-start", "-update", "-done"))


def _body(module: Module, one: Instruction) -> Sequence[Instruction] | None:
    """Return what an instruction computes as a computation: its own, or one of itself alone; None if not known."""
    if one.kind in ("fusion", "call"):
        return module.computations.get(one.called[0]) if one.called else None
    if any(name not in module.instructions for name in one.operands):
        return None
    given = [module.instructions[name]._replace(kind="parameter", root=False) for name in dict.fromkeys(one.operands)]
    return [*given, one._replace(root=True)]


def _read(module: Module, body: Sequence[Instruction]) -> float:
    """Count the bytes of parameters that a computation reads, and of the rows that it adds to in place."""
    needed, total = _needed(module, body), 0.0
    for one in body:
        if one.kind == "parameter" and not one.shape.startswith("("):
            total += needed.get(one.name, 0) * size(one.shape).plain / max(1, elements(one.shape))
    by_name = {one.name: one for one in body}
    added = [one for one in _outputs(by_name) if one.kind == "scatter" and not _sets(module, one)]
    return total + sum(_updates(one, by_name) for one in added)


def _sets(module: Module, scatter: Instruction) -> bool:
    """Return whether a scatter replaces rows: then its computation takes the update as it is, and reads no row."""
    inside = [each for name in scatter.called for each in module.computations.get(name, ())]
    return bool(inside) and all(each.kind == "parameter" for each in inside)


def _written(body: Sequence[Instruction]) -> float:
    by_name = {one.name: one for one in body}
    outputs = _outputs(by_name)
    return sum(_updates(one, by_name) if one.kind in _IN_PLACE else size(one.shape).plain for one in outputs)


def _updates(one: Instruction, by_name: Mapping[str, Instruction]) -> int:
    """Return the bytes of the rows that a scatter or an update of a slice changes."""
    names = one.operands
    new = names[1:2] if one.kind == "dynamic-update-slice" else names[(len(names) + 1) // 2 :]
    return sum(size(by_name[name].shape).plain for name in new)


def _outputs(by_name: Mapping[str, Instruction]) -> list[Instruction]:
    """Return the instructions that compute the arrays that a computation gives back."""
    found, left = [], [one for one in by_name.values() if one.root]
    while left:
        one = left.pop()
        if one.kind in ("tuple", "bitcast"):
            left += [by_name[name] for name in one.operands]
        else:
            found.append(one)
    return found


def _needed(module: Module, body: Sequence[Instruction]) -> dict[str, float]:
    """Count the needed elements of the result of each instruction of a computation, in which operands come first."""
    by_name = {one.name: one for one in body}
    in_place = {one.name for one in _outputs(by_name) if one.kind in _IN_PLACE}
    needed = {one.name: float(elements(one.shape)) for one in body if one.root}
    for one in reversed(body):
        wanted = needed.get(one.name, 0.0)
        if not wanted or one.kind == "parameter":
            continue
        for name, each in _of_operands(module, one, wanted, one.name in in_place):
            if name in by_name:
                needed[name] = min(float(elements(by_name[name].shape)), needed.get(name, 0.0) + each)
    return needed


def _of_operands(module: Module, one: Instruction, wanted: float, in_place: bool) -> list[tuple[str, float]]:
    """Return how many elements of each operand an instruction needs for `wanted` ones of its result, at most all."""
    names, everything = one.operands, float("inf")
    if one.kind in _WHOLE and _MARK not in one.rest:
        return [(name, everything) for name in names]
    if one.kind == "fusion" and one.called:
        body = module.computations.get(one.called[0], [])
        inside = _needed(module, body)
        numbers = {each.rest.split(")")[0]: inside.get(each.name, 0.0) for each in body if each.kind == "parameter"}
        return [(name, numbers.get(str(place), everything)) for place, name in enumerate(names)]
    if one.kind in _IN_PLACE:
        tables = (len(names) - 1) // 2 if one.kind == "scatter" else 1
        before = 0.0 if in_place else wanted
        return [(name, before if place < tables else everything) for place, name in enumerate(names)]
    return [(name, wanted) for name in names]


def _convolution(one: Instruction, image: str, kernel: str) -> float | None:
    """Count the operations of a convolution without those on padding; on a TPU, matrix products are convolutions."""
    labels = _LABELS.search(one.rest)
    if labels is None:
        return None
    of_image, of_kernel, of_result = (
        dict(zip(names, dimensions(shape), strict=False))
        for names, shape in zip(labels.groups(), (image, kernel, one.shape), strict=True)
    )
    spatial = [label for label in labels[3] if label.isdigit()]
    window = re.search(r"window=\{([^}]*)\}", one.rest)
    parts = {name: value.split("x") for name, value in _WINDOW.findall(window[1])} if window else {}
    total = 2.0 * of_result["b"] * of_result["f"] * of_kernel["i"]
    for place, label in enumerate(spatial):

        def part(name: str, default: str, place: int = place) -> str:
            return parts[name][place] if name in parts else default

        low = int(re.match(r"-?\d+", part("pad", "0_0"))[0])  # type: ignore[index]
        stride, holes, spread = int(part("stride", "1")), int(part("lhs_dilate", "1")), int(part("rhs_dilate", "1"))
        at = np.arange(of_result[label])[:, None] * stride + np.arange(of_kernel[label]) * spread - low
        inside = (at >= 0) & (at % holes == 0) & (at // holes < of_image[label])
        total *= int(inside.sum())
    return total
