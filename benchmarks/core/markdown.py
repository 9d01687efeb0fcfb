"""A recorded table for people: as Markdown, and as the cells that the terminal shows."""

import re
from collections.abc import Collection, Iterable, Set
from typing import Any

import numpy as np

from benchmarks.core import record
from benchmarks.core.verdict import SEEDS

MOST_WRITTEN = 8  # comparisons of a claim that are all written out
# units of a text in older records; neighbouring ones are dependent, so that pages mark intervals over them
FORMER, DAGGER = "blocks of ten lines", "†"
NARROW = f"intervals over {FORMER} are too narrow"


def header(result: dict[str, Any]) -> list[str]:
    """Return the titles of all columns, the thesis' figures beside ours."""
    titles = list(result["heads"])
    for column in result["columns"]:
        titles.append(column["title"])
        if any(column["name"] in row["thesis"] for row in result["rows"]):
            titles.append("published" if "published" in result else "thesis")
    return titles


def cells(result: dict[str, Any], row: dict[str, Any]) -> list[str]:
    """Return the cells of a row as text: means, each with its `margin`, and the thesis' figures."""
    shown = list(row["label"])
    for column in result["columns"]:
        digits, ours = column["digits"], row["cells"].get(column["name"], {})
        text = code(ours[record.TEXT]) if record.TEXT in ours else record.number(ours.get("mean"), digits)
        if ours and margin(ours) is not None:
            text += f" ± {record.number(margin(ours), None if digits is None else max(digits, 1))}"
        shown.append(text)
        if any(column["name"] in r["thesis"] for r in result["rows"]):
            shown.append(record.number(row["thesis"].get(column["name"]), digits))
    return shown


def code(text: str) -> str:
    """Write text as code in a cell of a table, where a word such as `<unk>` would be markup."""
    fence, padding = ("``", " ") if "`" in text else ("`", "")
    return "".join([fence, padding, text.replace("|", r"\|"), padding, fence])


def units(rows: Iterable[dict[str, Any]]) -> str:
    """Name the units that the bootstrap of a record's rows is over."""
    return " or ".join(dict.fromkeys(row["resampled"] for row in rows if "resampled" in row))


def margins(resampled: str) -> str:
    """Say what the figures after ± are.

    Args:
        resampled: the units that the bootstrap is over.
    """
    narrow = f", and {NARROW}" if FORMER in resampled else ""
    return (
        f"± is half of the 95 % interval of the mean over seeds (paired bootstrap over {resampled}, and spread over "
        "seeds), in other columns the standard deviation over seeds. The figures of verdicts, with their 95 % "
        "interval, are of the quantity that the claim names; where it compares two models, of the first less the "
        f"second or, in %, relative to the second. *No* allows for the number of comparisons{narrow}: see "
        "docs/fidelity.md."
    )


def margin(cell: dict[str, Any]) -> float | None:
    """Return half of a cell's interval; without one, the standard deviation over seeds; None where there is none."""
    if "interval" in cell:
        return (cell["interval"][1] - cell["interval"][0]) / 2
    return cell.get("sd") or None


def page(
    result: dict[str, Any],
    thesis_data: str,
    size: str,
    current: Set[str],
    pictures: Collection[str] = (),
) -> str:
    """Write the page of a table: its figure, if any, its rows and verdicts, and where it and its models are from.

    Args:
        result: the record.
        thesis_data: the data of the thesis' figures.
        size: of the data, in words.
        current: folders of the models that the present source code trains.
        pictures: file names of the figure: a PNG, an interactive HTML page.
    """
    titles, data = header(result), result["data"]
    lines = [
        f"# {result['table']}: {result['title']}",
        "",
        source(result, thesis_data),
        f"Data: {data['name']} ({data['note']}), {size}; scale {result['scale']}, recipe {result['recipe']}.",
        "",
        *(() if result["complete"] else ("**Not all rows have been run yet.**", "")),
        *(line for name in pictures for line in (_linked(name, result["title"]), "")),
        "| " + " | ".join(titles) + " |",
        "|" + "|".join(["---"] * len(result["heads"]) + ["--:"] * (len(titles) - len(result["heads"]))) + "|",
        *("| " + " | ".join(cells(result, row)) + " |" for row in result["rows"]),
        "",
    ]
    lines += verdict_lines(result)
    if result.get("verdicts") and not current >= result["models"].keys():
        lines += ["", "Some of the models that are compared were trained by earlier source code: see the last line."]
    resampled = units(result["rows"])
    lines += ["", " ".join(filter(None, (result["note"], margins(resampled) if resampled else "")))]
    places = "; ".join(dict.fromkeys(_place(where) for row in result["rows"] for where in record.environments(row)))
    return "\n".join([*lines, "", f"`{result['command']}` at {places}.", "", trained(result, current), ""])


def source(result: dict[str, Any], thesis_data: str) -> str:
    """Say where the figures beside ours are from."""
    if "published" in result:
        return f"Not of the thesis; published figures are of {result['published']}."
    if result["section"]:
        return f"Mnih 2010, §{result['section']}; the thesis' figures are of {thesis_data}."
    return "Not of the thesis."


def section(place: str) -> str:
    """Write where a claim is made: a section of the thesis, which begins with its number, or another publication."""
    return f"§{place}" if place[:1].isdigit() else place


def _linked(name: str, title: str) -> str:
    """Show a picture, or link a page."""
    return f"![{title}]({name})" if name.endswith(".png") else f"To move in, zoom and search: [{name}]({name})."


def trained(result: dict[str, Any], current: Collection[str]) -> str:
    """Say at which commits the models of a record were trained, and which by earlier source code."""
    commits: dict[tuple[str, bool], list[str]] = {}
    for name, model in result["models"].items():
        label = title(model)
        known = commits.setdefault((_commit(model), name in current), [])
        known += [] if label in known else [label]
    if not commits:
        return "No model was trained."
    if len(commits) == 1 and all(now for _, now in commits):
        return f"Models trained at {next(iter(commits))[0]}."
    said = [
        f"{', '.join(labels)} at {commit}{'' if now else ' (by earlier source code)'}"
        for (commit, now), labels in commits.items()
    ]
    return f"Models trained: {'; '.join(said)}."


def title(model: dict[str, Any]) -> str:
    """Return the name shared by models that differ only in their seed or in the split of the data."""
    return re.sub(r"-(seed|split)\d+", "", model["label"])


def _commit(where: dict[str, Any]) -> str:
    return f"commit {where['commit']}{' with changes' if where['dirty'] else ''}"


def _place(where: dict[str, Any]) -> str:
    """Say where a row was measured, and by which code."""
    return f"{_commit(where)}, Python {where['python']}, JAX {where['jax']}, {where['device']} ({where['cores']} cores)"


def verdict_lines(result: dict[str, Any]) -> list[str]:
    """Write what the thesis claims, whether it holds on the test, and the figures."""
    found = result.get("verdicts")
    if found is None:
        return [why_not_judged(result)]
    return [f"- {verdict_line(verdict)}" for verdict in found]


def why_not_judged(result: dict[str, Any]) -> str:
    """Say why a record has no verdicts."""
    if not result["complete"]:
        why = "not all rows are recorded yet"
    elif "verdicts" not in result:
        why = "the record is older than verdicts"
    else:
        why = "not all rows are of models that the source code of the last run trained"
    return f"Claims are not judged here: {why}."


def verdict_line(verdict: dict[str, Any]) -> str:
    """Write a verdict: the answer, the claim, the test's figures with their intervals, and validation's answer."""
    test, validation = verdict["test"], verdict["validation"]
    line = f"**{verdict['answer']}**: {verdict['claim']} ({section(verdict['section'])})."
    if test is None:
        return f"{line} There is no test; validation: {validation['answer']}, {_figures(validation)}."
    few = "" if test["seeds"] is None or test["seeds"] >= SEEDS else f" (seeds: {test['seeds']}, too few)"
    line += f" Test{few}: {_figures(test)}."
    return line if validation is None else f"{line} Validation: {validation['answer']}."


def _figures(judged: dict[str, Any]) -> str:
    """Write the figures of a claim's comparisons, shares in %, and whether each holds, if not all do alike.

    Of more than MOST_WRITTEN comparisons, those that hold are only counted, unless all hold.
    """
    comparisons = judged["comparisons"]
    differ = len({found["holds"] for found in comparisons}) > 1
    written = comparisons
    if len(comparisons) > MOST_WRITTEN:
        written = [found for found in comparisons if found["holds"] != "yes"] or comparisons
    figures = [
        f"{found['label']} {shown(found)}{' (' + found['holds'] + ')' if differ else ''}".strip() for found in written
    ]
    rest = len(comparisons) - len(written)
    return "; ".join([*figures, f"{rest} of {len(comparisons)} comparisons hold"] if rest else figures)


def shown(found: dict[str, Any]) -> str:
    """Write a comparison's figure and its interval, to two digits of half the interval's width."""
    percent = found["percent"]
    value, low, high = ((100 if percent else 1) * number for number in (found["value"], *found["interval"]))
    digits = 4 if not high > low else int(np.clip(1 - np.floor(np.log10((high - low) / 2)), 0, 5))
    value, low, high = (round(number, digits) + 0.0 for number in (value, low, high))  # + 0.0: no -0.0
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]{' %' if percent else ''}"
