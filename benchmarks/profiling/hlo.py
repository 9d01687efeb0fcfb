"""Facts from the text of a compiled program: collectives, the padding of arrays, the compiler's estimate of cycles.

A loop's body is counted as often as it runs, if its condition compares with a constant; the loop of training steps,
whose bounds are traced, counts once, so that totals are those of one step.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from jaxfit.devices import row_exchange

ITEM = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "s16": 2, "u16": 2, "f32": 4, "s32": 4, "u32": 4, "f64": 8,
        "s64": 8, "u64": 8}  # fmt: skip
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\) -> .* \{$")
_INSTRUCTION = re.compile(r"^\s*(ROOT )?%?([\w.\-]+) = (.*?) ([a-z][\w\-]*)\((.*)$")
_MODULE = re.compile(r"^HloModule ([\w.\-]+)")
_OPERAND = re.compile(r"%([\w.\-]+)(?=[,)]|$)")
_OP_NAME = re.compile(r'op_name="([^"]*)"')
_SHAPE = re.compile(r"\b([a-z]+\d*)\[([\d,]*)\](?:\{([\d,]*)(?::([^}]*))?\})?")
_CALLED = re.compile(r"(?:calls|body|to_apply)=%?([\w.\-]+)")
_BRANCHES = re.compile(r"(?:branch_computations=\{([^}]*)\}|(?:true|false)_computation=(%?[\w.\-]+))")
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_CONSTANT = re.compile(r"\bconstant\((\d+)\)")
# where instructions come from: a frame has a place, and a place has a line of a file, all by number
_FRAME = re.compile(r"stack_frame_id=(\d+)")
_FILE = re.compile(r'^(\d+) "([^"]*)"$', re.MULTILINE)
_PLACE = re.compile(r"^(\d+) \{file_name_id=(\d+) .*?\bline=(\d+)", re.MULTILINE)
_OF_FRAME = re.compile(r"^(\d+) \{file_location_id=(\d+)", re.MULTILINE)
_STEPS = "jit(run)/while/body/while"  # the place of the loop of steps


class Instruction(NamedTuple):
    """A line of a program."""

    name: str
    shape: str
    kind: str
    rest: str
    root: bool = False  # whether its result is that of the computation

    @property
    def operands(self) -> list[str]:
        """Names of the instructions whose results it takes."""
        depth = 1
        for place, letter in enumerate(self.rest):
            depth += (letter in "({") - (letter in ")}")
            if depth == 0:
                return _OPERAND.findall(self.rest[:place])
        return _OPERAND.findall(self.rest)

    @property
    def called(self) -> list[str]:
        """Names of the computations that it runs: of a fusion, a loop, a call, or the branches of a conditional."""
        branches = [name for found in _BRANCHES.findall(self.rest) for name in re.findall(r"[\w.\-]+", " ".join(found))]
        return _CALLED.findall(self.rest) + branches

    @property
    def op_name(self) -> str:
        """The path of JAX's transformations, scopes and primitive that it comes from; empty where it is not known."""
        found = _OP_NAME.search(self.rest)
        return found[1] if found else ""


class Size(NamedTuple):
    """Bytes of arrays, without and with the padding of their layout in memory."""

    plain: int
    padded: int


class Module:
    """A compiled program, read from its text."""

    def __init__(self, text: str):
        self.computations: dict[str, list[Instruction]] = {}
        self.name = self.entry = ""
        self._header: list[str] = []  # what comes before the first computation
        inside: list[Instruction] = []
        for line in text.splitlines():
            if head := _COMPUTATION.match(line):
                inside = self.computations.setdefault(head[2], [])
                self.entry = head[2] if head[1] else self.entry
            elif found := _INSTRUCTION.match(line):
                inside.append(Instruction(found[2], found[3], found[4], found[5], root=bool(found[1])))
            elif not self.computations:
                self._header.append(line)
        if self._header and (first := _MODULE.match(self._header[0])):
            self.name = first[1]

    @cached_property
    def instructions(self) -> dict[str, Instruction]:
        """All instructions by name; a compiled program has each name once."""
        return {one.name: one for each in self.computations.values() for one in each}

    def source(self, one: Instruction) -> str | None:
        """Return the file and line of ours that an instruction comes from, "tables.py:91"; None if not known."""
        frame = _FRAME.search(one.rest)
        return self._sources.get(frame[1]) if frame else None

    @cached_property
    def _sources(self) -> dict[str, str]:
        header = "\n".join(self._header)
        before, _, places = header.partition("\nFileLocations\n")
        names = dict(_FILE.findall(before.partition("\nFunctionNames\n")[0]))
        at = {place: f"{names[file].rpartition('/')[2]}:{line}" for place, file, line in _PLACE.findall(places)}
        return {frame: at[place] for frame, place in _OF_FRAME.findall(places)}

    @cached_property
    def step(self) -> str:
        """The name of the body of the loop of training steps: the largest of those at its place."""
        bodies = [
            called for each in self.computations.values() for one in each
            if one.kind == "while" and f'op_name="{_STEPS}"' in one.rest for called in _CALLED.findall(one.rest)
        ]  # fmt: skip
        return max(bodies, key=lambda name: len(self.computations[name])) if bodies else self.entry

    def walk(self, name: str, times: int = 1, without: str | None = None) -> Iterator[tuple[Instruction, int]]:
        """Yield the instructions of a computation and of those that it runs, and how often each runs.

        Args:
            without: scope of the loops and of the branches of conditionals that are left out.
        """
        for one in self.computations.get(name, ()):
            yield one, times
            if one.kind == "while" and without is not None and without in one.op_name:
                continue
            if one.kind in ("while", "call", "conditional", "async-start"):
                often = times * (self.trips(one) if one.kind == "while" else 1)
                for called in one.called:
                    if one.kind == "conditional" and without is not None and self._names(called, without):
                        continue
                    yield from self.walk(called, often, without)

    def _names(self, name: str, scope: str) -> bool:
        """Return whether an instruction of a computation names a scope: the compiler drops the names of some."""
        return any(scope in one.op_name for one in self.computations.get(name, ()))

    def trips(self, loop: Instruction) -> int:
        """Return how often a loop runs: the largest constant of its condition; 1 where it has none."""
        condition = re.search(r"condition=%?([\w.\-]+)", loop.rest)
        lines = self.computations.get(condition[1], []) if condition else []
        numbers = [int(number) for one in lines for number in _CONSTANT.findall(f"{one.kind}({one.rest}")]
        return max(numbers, default=1)

    def cycles(self) -> int:
        """Sum the compiler's estimates for a step; gathers, scatters and some others have none."""
        return sum(int(found[1]) * times for one, times in self.walk(self.step) if (found := _CYCLES.search(one.rest)))

    def collectives(self) -> Counter[str]:
        """Sum the bytes of the results of collectives of a step, by kind.

        What runs only if one device reads too many rows of another (`row_exchange.FALLBACK`) is not counted.
        """
        total: Counter[str] = Counter()
        for one, times in self.walk(self.step, without=row_exchange.FALLBACK):
            kind = one.kind.removesuffix("-start")
            if kind in COLLECTIVES:
                total[kind] += size(one.shape).plain * times
        return total

    def operations(self) -> Counter[str]:
        """Count the instructions that a step runs, by kind."""
        total: Counter[str] = Counter()
        for one, times in self.walk(self.step):
            if one.kind not in ("parameter", "constant", "tuple", "get-tuple-element", "bitcast"):
                total[one.kind] += times
        return total

    def arrays(self) -> Size:
        """Sum the sizes of the program's parameters."""
        shapes = [size(one.shape) for one in self.computations[self.entry] if one.kind == "parameter"]
        return Size(sum(each.plain for each in shapes), sum(each.padded for each in shapes))

    def temporaries(self) -> Size:
        """Sum the sizes of results that a step writes to the device's main memory, each once."""
        seen = {
            one.name: size(one.shape) for one, _ in self.walk(self.step)
            if one.kind in ("fusion", "copy", "convolution", "dot", "gather", "scatter", "sort", "custom-call")
            and "S(1)" not in one.shape
        }  # fmt: skip
        return Size(sum(each.plain for each in seen.values()), sum(each.padded for each in seen.values()))


def dimensions(shape: str) -> list[int]:
    """Return the sizes of an array's dimensions; for a tuple, those of its first array."""
    found = _SHAPE.search(shape)
    return [int(part) for part in found[2].split(",") if part] if found else []


def elements(shape: str) -> int:
    """Count the elements of an array, or of all arrays in a tuple."""
    return sum(math.prod(int(part) for part in found[1].split(",") if part) for found in _SHAPE.findall(shape))


def size(shape: str) -> Size:
    """Return the bytes of a shape, or of all in a tuple; "f32[131072,513]{0,1:T(8,128)}" is padded to tiles."""
    plain = padded = 0
    for kind, dimensions, order, layout in _SHAPE.findall(shape):
        sizes = [int(part) for part in dimensions.split(",") if part]
        plain += ITEM.get(kind, 4) * math.prod(sizes)
        tile = re.search(r"T\(([\d,]+)\)", layout or "")
        if tile and sizes:
            minor = [int(place) for place in order.split(",") if place]  # the fastest first
            for place, width in zip(minor, reversed([int(part) for part in tile[1].split(",")]), strict=False):
                sizes[place] = -(-sizes[place] // width) * width
        padded += ITEM.get(kind, 4) * math.prod(sizes)
    return Size(plain, padded)
