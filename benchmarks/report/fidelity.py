"""Which claims of the thesis do not hold in the records, or are unresolved: list and picture of docs/fidelity.md."""

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.core import figure, markdown, record
from benchmarks.core.verdict import NOT_CLAIMED, TARGET

SCALES = ("cpu", "full")  # on real data, whose records are evidence
WIDTH = 110  # characters of a row's text in the picture
ANSWERS = ("no", "unresolved", "yes")  # the worst first
COLOURS = {"no": "tab:red", "unresolved": "tab:grey"}


class Judged(NamedTuple):
    """A record on real data, and its verdicts on claims; None: they are not judged."""

    path: Path
    verdicts: list[dict[str, Any]] | None


def records(folder: Path) -> list[Judged]:
    """Read the verdicts on the thesis' claims from the records in a folder."""
    found = []
    for path in sorted(folder.glob("*.json")):
        result = record.read(path) or {}
        if result.get("scale") in SCALES and result.get("section"):  # without a section, it is not of the thesis
            verdicts = result.get("verdicts")
            found.append(Judged(path, None if verdicts is None else [one for one in verdicts if _claimed(one)]))
    return found


def _claimed(verdict: dict[str, Any]) -> bool:
    """Return whether the thesis makes the claim."""
    return NOT_CLAIMED not in verdict["section"] and verdict["section"] != TARGET


def lines(judged: list[Judged], where: str) -> list[str]:
    """List how many claims hold by record, then each that does not, with its figures.

    Args:
        where: the folder of the records as seen from the page.
    """
    drawn = [one for one in judged if one.verdicts]
    found = ["| record | yes | no | unresolved |", "|---|--:|--:|--:|"]
    for path, verdicts in drawn:
        count = Counter(verdict["answer"] for verdict in verdicts or [])
        found.append(f"| {_link(path, where)} | {count['yes']} | {count['no']} | {count['unresolved']} |")
    for path, verdicts in drawn:
        open_ = [verdict for verdict in verdicts or [] if verdict["answer"] != "yes"]
        if open_:
            found += ["", f"{_link(path, where)}:", "", *(f"- {markdown.verdict_line(verdict)}" for verdict in open_)]
    before = [_link(path, where) for path, verdicts in judged if verdicts is None]
    if before:
        found += ["", f"Not judged, for the reason that the page of each says: {', '.join(before)}."]
    return found


def _link(path: Path, where: str) -> str:
    return f"[{path.stem}]({where}/{path.stem}.md)"


def decisive(comparisons: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the comparison that decides against a claim: of those with the worst answer, the furthest from its range.

    The furthest of all need not be a *no*, as that answer allows for the number of comparisons and for few seeds.
    """
    worst = min((one["holds"] for one in comparisons), key=ANSWERS.index)
    return max((one for one in comparisons if one["holds"] == worst), key=_distance)


def unconfirmed(judged: list[Judged]) -> list[tuple[str, float, str]]:
    """List claims that are not confirmed: record, claim and decisive comparison, its distance, and the answer."""
    rows = []
    for path, verdicts in judged:
        for verdict in verdicts or []:
            if verdict["answer"] != "yes" and verdict["test"] is not None:
                one = decisive(verdict["test"]["comparisons"])
                label = f" ({one['label']})" if one["label"] else ""
                text = f"{path.stem.replace('.cpu', '')}: {verdict['claim']}"
                width = WIDTH - len(label)
                shown = text if len(text) <= width else f"{text[: width - 1]}…"
                rows.append((shown + label, _distance(one), verdict["answer"]))
    return rows


def draw(judged: list[Judged], path: Path) -> None:
    """Draw how far the comparisons that decide against a claim are from what it claims."""
    rows = unconfirmed(judged)
    title = "Claims that are not confirmed: how far the decisive comparison is from what is claimed"
    with figure.panels(path, title, figsize=(13, 1.5 + 0.22 * len(rows)), ncols=1, squeeze=False) as ((ax,),):
        for answer, colour in COLOURS.items():
            own = [(distance, y) for y, (_, distance, said) in enumerate(rows) if said == answer]
            ax.errorbar([x for x, _ in own], [y for _, y in own], xerr=1.0, fmt="o", color=colour, label=answer)
        ax.axvline(0, color="black", linewidth=0.8)
        ax.set_yticks(range(len(rows)), [text for text, _, _ in rows], fontsize=7)
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.set(xlabel="distance, in halves of the 95 % interval; left of 0: as claimed", xscale="symlog")
        ax.legend()


def _distance(comparison: dict[str, Any]) -> float:
    """Return how far a figure is from the claimed range, in half widths of its interval; negative inside."""
    low, high = comparison["interval"]
    least, most = comparison["claimed"]
    ends = [end for end in (None if least is None else least - comparison["value"],
                            None if most is None else comparison["value"] - most) if end is not None]  # fmt: skip
    return max(ends) / max((high - low) / 2, 1e-12)
