"""docs/fidelity.md: its list of claims that are not confirmed, what its picture shows, and that it is as recorded."""

import json
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest

from benchmarks.core import figure, record
from benchmarks.core.verdict import NOT_CLAIMED, TARGET, Claim, Comparison, Scores, estimate, verdicts
from benchmarks.report import fidelity, maps

ROOT = Path(__file__).parents[3]


def _comparison(label: str, holds: str, value: float, half: float, claimed=(None, 0.0)) -> dict:
    interval = [value - half, value + half]
    return {
        "label": label,
        "holds": holds,
        "value": value,
        "interval": interval,
        "claimed": list(claimed),
        "percent": False,
    }


def _verdict(answer: str, *comparisons: dict, claim: str = "one is better") -> dict:
    test = {"answer": answer, "seeds": 3, "comparisons": list(comparisons)}
    return {"claim": claim, "section": "5.4", "answer": answer, "test": test, "validation": {"answer": "yes"}}


def _records(folder: Path, **verdicts_of: list[dict] | None) -> list[fidelity.Judged]:
    for name, found in verdicts_of.items():
        content = {"scale": "smoke" if name.startswith("smoke") else "cpu", "verdicts": found}
        content["section"] = "" if name.startswith("others") else "5.4"
        (folder / f"{name}.json").write_text(json.dumps(content))
    return fidelity.records(folder)


def test_all_verdicts_are_counted_and_those_that_are_not_yes_are_listed(tmp_path: Path) -> None:
    """Only of records on real data, those without verdicts are named; and only of what the thesis claims."""
    yes, no, unresolved = (
        _verdict(answer, _comparison("A and B", answer, 0.5, 0.25), claim=f"claim {answer}")
        for answer in ("yes", "no", "unresolved")
    )
    ours, target = {**no, "section": f"5.4, {NOT_CLAIMED}"}, {**unresolved, "section": TARGET}
    judged = _records(
        tmp_path, a=[yes, no, yes, ours, target], b=[unresolved], c=None, d=[], e=[yes], f=[ours, target],
        smoke=[no], smoke_2=None, others=[no],
    )  # fmt: skip
    assert fidelity.lines(judged, "there") == [
        "| record | yes | no | unresolved |",
        "|---|--:|--:|--:|",
        "| [a](there/a.md) | 2 | 1 | 0 |",
        "| [b](there/b.md) | 0 | 0 | 1 |",
        "| [e](there/e.md) | 1 | 0 | 0 |",
        "",
        "[a](there/a.md):",
        "",
        "- **no**: claim no (§5.4). Test: A and B 0.50 [0.25, 0.75]. Validation: yes.",
        "",
        "[b](there/b.md):",
        "",
        "- **unresolved**: claim unresolved (§5.4). Test: A and B 0.50 [0.25, 0.75]. Validation: yes.",
        "",
        "Not judged, for the reason that the page of each says: [c](there/c.md).",
    ]


@pytest.mark.parametrize(
    ("held", "decides"),
    [
        # of nearly equal distances, the first is of few degrees of freedom: not apart at Bonferroni's level
        ({"25": ("unresolved", 1.51), "50": ("no", 1.40), "100": ("yes", -1.1)}, "50"),
        ({"25": ("no", 3.0), "50": ("no", 4.0), "100": ("unresolved", 5.0)}, "50"),
        ({"25": ("yes", -1.2), "50": ("unresolved", -0.9), "100": ("unresolved", -0.5)}, "100"),
        ({"25": ("yes", -1.5), "50": ("yes", -2.0)}, "25"),  # unresolved, of too few seeds
    ],
)
def test_what_decides_is_the_furthest_of_the_worst_answer(held: dict, decides: str) -> None:
    comparisons = [_comparison(label, holds, distance * 0.2, 0.2) for label, (holds, distance) in held.items()]
    assert fidelity.decisive(comparisons)["label"] == decides
    assert fidelity.decisive(comparisons[::-1])["label"] == decides


def test_what_decides_a_no_need_not_be_the_furthest_in_halves_of_intervals() -> None:
    """A comparison whose seeds differ has fewer degrees of freedom, and so asks for more at Bonferroni's level."""
    noise, ones = np.random.default_rng(0).normal(size=200), np.ones(200)

    def comparison(label: str, by_seed: tuple[float, ...]) -> Comparison:
        scores = [[Scores(by + noise, ones, np.positive)] for by in by_seed]
        return Comparison(label, scores, quantity=np.positive)

    half = 1.96 * estimate(comparison("", (0.0, 0.0, 0.0))).error
    few, many = comparison("few", (2.35, 3.35, 4.35)), comparison("many", (1.25 * half - noise.mean(),) * 3)
    (verdict,) = verdicts([Claim("5.4", "", [few, many])], [])
    (by_few, by_many) = verdict["test"]["comparisons"]
    assert [by_few["holds"], by_many["holds"], verdict["answer"]] == ["unresolved", "no", "no"]
    assert fidelity._distance(by_few) > fidelity._distance(by_many) > 1
    assert fidelity.decisive(verdict["test"]["comparisons"]) is by_many


@pytest.mark.parametrize(
    ("claimed", "value", "distance"),
    [
        ((None, 0.0), 0.3, 1.5), ((None, 0.0), -0.3, -1.5), ((0.0, None), 0.3, -1.5), ((0.0, None), -0.3, 1.5),
        ((-0.2, 0.2), 0.3, 0.5), ((-0.2, 0.2), -0.4, 1.0), ((-0.2, 0.2), 0.1, -0.5),
    ],
)  # fmt: skip
def test_the_picture_shows_distances_in_halves_of_intervals(
    claimed: tuple, value: float, distance: float, tmp_path: Path
) -> None:
    verdict = _verdict("no", _comparison("A", "no", value, 0.2, claimed))
    ((_, found, answer),) = fidelity.unconfirmed(_records(tmp_path, a=[verdict]))
    assert found == pytest.approx(distance)
    assert answer == "no"


def test_the_picture_has_a_row_for_each_claim_that_is_not_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each names its record, claim and decisive comparison, however long; points are at that comparison's distance."""
    yes = _verdict("yes", _comparison("A", "yes", -1.0, 0.5))
    no = _verdict("no", _comparison("A", "unresolved", 1.0, 0.5), _comparison("B", "no", 0.75, 0.5), claim="c" * 200)
    unresolved = _verdict("unresolved", _comparison("", "unresolved", 0.25, 0.5))
    untested = {**unresolved, "test": None}
    judged = _records(tmp_path, **{"table-1.ml.cpu": [yes, no, untested], "table-2.ml.cpu.thesis": [unresolved]})
    found = fidelity.unconfirmed(judged)
    assert [(distance, answer) for _, distance, answer in found] == [(1.5, "no"), (0.5, "unresolved")]
    texts = [text for text, _, _ in found]
    assert texts[0].startswith("table-1.ml: ccc")
    assert texts[0].endswith("c… (B)")
    assert len(texts[0]) == fidelity.WIDTH
    assert texts[1] == "table-2.ml.thesis: one is better"

    ax = MagicMock()

    @contextmanager
    def panels(*arguments, **layout):
        yield ((ax,),)

    monkeypatch.setattr(figure, "panels", panels)
    fidelity.draw(judged, tmp_path / "never.png")
    points = {call.kwargs["label"]: call.args for call in ax.errorbar.call_args_list}
    assert points == {"no": ([1.5], [0]), "unresolved": ([0.5], [1])}
    assert ax.set_yticks.call_args.args == (range(2), texts)


def test_the_page_is_as_recorded() -> None:
    """`python -m benchmarks report` brings it up to date."""
    text = (ROOT / "docs" / "fidelity.md").read_text(encoding="utf-8")
    judged = fidelity.records(record.RESULTS)
    assert maps.fill(text, "verdicts", fidelity.lines(judged, "../benchmarks/results")) == text
