"""Where the time of training steps goes: by operation of the compiled program, and by part of the model.

Times are from a trace; everything else is read from the program's text. Values found in neither are None. Time that
operations share is divided among them equally, so that times add up to that of the device; rates are over the whole
time that an operation took.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.measurement.limits import COPY, OPERATIONS
from benchmarks.measurement.spans import covered, divided
from benchmarks.profiling import work
from benchmarks.profiling.hlo import Module
from benchmarks.profiling.xplane import Event
from jaxfit.errors import UserError

Figures = dict[str, Any]
TIME, SHARE, ROOFLINE = "ms a step", "share of time", "share of roofline"
TOTALS = FLOP, BYTES = "FLOP a step", "bytes a step"  # in JSON only: rates say more
MATCHED = "share of device time matched with the program"
SLOWER, UNRELIABLE = 2.0, "shares of short operations are not reliable, take a larger --scale"  # than without a trace
NO_PART, UNMATCHED = "(no part)", "(not in the program)"
GRADIENT = "gradient"
_CONTAINERS = ("while", "conditional", "call")  # their time is counted as that of the operations that they run
_HEAVY = ("convolution", "dot", "sort", "scatter", "gather", "reduce")  # what a fusion is named after, if it has one
# components of an instruction's path that are neither scopes nor primitives
_STRUCTURE = re.compile(
    r"while|body|cond|branch_\d+_fun|closed_call|core_call|checkpoint|remat|rematted_computation|shard_map|pjit|"
    r"custom_jvp_call|custom_vjp_call|custom_vjp_call_jaxpr"
)
_WRAPPER = re.compile(r"(\w+)\((.*)\)")


def part(op_name: str) -> str | None:
    """Return the part of a model that an instruction belongs to: the innermost scope, and whether of its gradient.

    Args:
        op_name: its path, such as "jit(run)/while/body/transpose(jvp(softmax))/dot_general". The last component is
            the primitive. What is within a library's function, "jit(_uniform)", has no scopes of the model's.

    Returns:
        Such as "softmax" or "softmax, gradient"; None where the path has neither.
    """
    scope, gradient, library = None, False, False
    for component in _components(op_name)[:-1]:
        while wrapped := _WRAPPER.fullmatch(component):
            gradient = gradient or wrapped[1] == "transpose"
            if wrapped[1] in ("jit", "pjit"):
                library = library or wrapped[2].startswith("_")
                component = ""
            else:
                component = wrapped[2]
        if component.isidentifier() and not library and not _STRUCTURE.fullmatch(component):
            scope = component
    return ", ".join(filter(None, (scope, GRADIENT if gradient else None))) or None


def _components(path: str) -> list[str]:
    """Divide a path at the slashes that are not within brackets."""
    found, depth = [""], 0
    for letter in path:
        depth += (letter == "(") - (letter == ")")
        if letter == "/" and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return found


def profile(
    events: Iterable[Event], module: Module, steps: int, limits: Mapping[str, float], wall: Mapping[str, float]
) -> Figures:
    """Attribute the time of traced steps to operations and to parts.

    Args:
        events: the operations that ran.
        module: the compiled program that they are of.
        steps: number of traced steps.
        limits: operations and bytes per second that the device reaches, by their names in
            `benchmarks.measurement.limits`.
        wall: other times of all these steps, in seconds, by name.

    Returns:
        `totals`, times per step by name and shares of the device's time; `operations` and `parts`, tables with the
        longest first.

    Raises:
        UserError: the trace has no operation of the program.
    """
    by_name = _leaves(events, module)
    spans = {name: [(event.begin, event.end) for event in found] for name, found in by_name.items()}
    seconds = divided(spans)
    device = sum(seconds.values())
    if not device:
        raise UserError(f"the trace has no operation of {module.name}", do="see docs/accelerators.md")
    rows = {
        name: {
            **_description(module, name),
            "times a step": _times(by_name[name]) / steps,
            TIME: seconds[name] / steps * 1e3,
            SHARE: seconds[name] / device,
            **_rates(module, name, _times(by_name[name]), covered(spans[name]), steps, limits),
        }
        for name in sorted(by_name, key=lambda name: -seconds[name])
    }
    matched = sum(seconds[name] for name in by_name if name in module.instructions)
    return {
        "totals": {
            **{f"{what}, ms a step": taken / steps * 1e3 for what, taken in {"device": device, **wall}.items()},
            "operations": len(rows), MATCHED: matched / device,
        },
        "operations": rows,
        "parts": parts(rows),
    }  # fmt: skip


def parts(rows: Mapping[str, Figures]) -> dict[str, Figures]:
    """Sum the times of operations by part, the largest first."""
    total: dict[str, Figures] = defaultdict(lambda: {TIME: 0.0, SHARE: 0.0, "operations": 0})
    for row in rows.values():
        name = UNMATCHED if row["kind"] is None else row["part"] or NO_PART
        for what, value in ((TIME, row[TIME]), (SHARE, row[SHARE]), ("operations", 1)):
            total[name][what] += value
    return dict(sorted(total.items(), key=lambda item: -item[1][TIME]))


def table(rows: Mapping[str, Figures], top: int) -> dict[str, Figures]:
    """Return the first rows of a table, and the sum of the others, for people: shares in percent."""
    shown = {name: {what: row[what] for what in row if what not in TOTALS} for name, row in list(rows.items())[:top]}
    rest = list(rows.values())[top:]
    if rest:
        shown[f"{len(rest)} more"] = {what: sum(row[what] for row in rest) for what in (TIME, SHARE)}
    for row in shown.values():
        for what in (SHARE, ROOFLINE):
            if row.get(what) is not None:
                row[what] = f"{row[what]:.1%}"
    return shown


def summary(result: Figures, top: int, limits: Mapping[str, float]) -> Figures:
    """Return the totals as people read them, with the share of time of the operations that are shown.

    A warning is added if the trace slowed the steps down.
    """
    rows, totals = list(result["operations"].values()), result["totals"]
    shown = sum(row[SHARE] for row in rows[:top])
    slower = totals[f"device, {TIME}"] / totals.get(f"wall, {TIME}", float("inf"))
    return {
        "shown": f"{len(rows[:top])} of {len(rows)} operations, {shown:.1%} of the device's time",
        **{what: value for what, value in totals.items() if what.endswith(TIME)},
        "matched with the program": f"{totals[MATCHED]:.1%} of the device's time",
        "limits": ", ".join(f"{name} {rate / 1e9:,.4g} · 10⁹/s" for name, rate in limits.items()),
        **({"warning": f"traced steps took {slower:.1f} times as long: {UNRELIABLE}"} if slower > SLOWER else {}),
    }


def _leaves(events: Iterable[Event], module: Module) -> dict[str, list[Event]]:
    """Group events by operation, without those that only contain others."""
    simple: dict[str, str] = {}  # name of a GPU kernel -> that of its instruction; "" if ambiguous
    for name in module.instructions:
        short = re.sub(r"\W", "_", name)
        simple[short] = "" if short in simple else name
    found: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        name = event.operation
        if name not in module.instructions:
            name = simple.get(re.sub(r"\W", "_", name)) or event.label
        found[name].append(event)
    ran = set(found)
    return {name: each for name, each in found.items() if not _contains(module, name, ran)}


def _contains(module: Module, name: str, ran: set[str]) -> bool:
    """Return whether an operation runs others that have events of their own."""
    one = module.instructions.get(name)
    if one is None or one.kind not in _CONTAINERS:
        return False
    inside = (each for called in one.called for each in module.computations.get(called, ()))
    return any(each.name in ran or _contains(module, each.name, ran) for each in inside)


def _times(events: Sequence[Event]) -> int:
    """Count how often an operation ran; one may be several kernels, each with a name of its own."""
    return max(Counter(event.label for event in events).values())


def _description(module: Module, name: str) -> Figures:
    """Say what an operation is: its kind, the part of the model, the line of the source; None where not known."""
    one = module.instructions.get(name)
    if one is None:
        return {"kind": None, "part": None, "source": None}
    inside = [each for called in one.called for each in module.computations.get(called, ())]
    kind, of = one.kind, one
    if kind == "fusion":
        kinds = {each.kind for each in inside}
        heavy = next((each for each in _HEAVY if each in kinds), None)
        kind = f"{kind} ({heavy})" if heavy else kind
        if not one.op_name:  # where its result comes from
            of = next((each for each in inside if each.root), one)
    return {"kind": kind, "part": part(of.op_name), "source": module.source(of)}


def _rates(module: Module, name: str, times: int, taken: float, steps: int, limits: Mapping[str, float]) -> Figures:
    """Return what an operation, which ran `times` times in `taken` seconds, computed and moved, and how fast."""
    one = module.instructions.get(name)
    computed = None if one is None else work.operations(module, one)
    moved = None if one is None else work.moved(module, one)
    roofline = None
    if computed is not None and moved is not None and taken:
        roofline = times * max(computed / limits[OPERATIONS], moved / limits[COPY]) / taken
    return {
        "GFLOP/s": times * computed / taken / 1e9 if computed and taken else None,
        "GB/s": times * moved / taken / 1e9 if moved and taken else None,
        ROOFLINE: roofline,
        FLOP: times * computed / steps if computed else None,
        BYTES: times * moved / steps if moved else None,
    }
