"""A recorded table for people: as Markdown, and as the cells that the terminal shows."""

from collections.abc import Collection
from typing import Any

from benchmarks.core import record


def header(result: dict[str, Any]) -> list[str]:
    """Return the titles of all columns, the thesis' figures beside ours."""
    titles = list(result["heads"])
    for column in result["columns"]:
        titles.append(column["title"])
        if any(column["name"] in row["thesis"] for row in result["rows"]):
            titles.append("thesis")
    return titles


def cells(result: dict[str, Any], row: dict[str, Any]) -> list[str]:
    """Write a row as text, mean ± standard deviation where there are several seeds."""
    shown = list(row["label"])
    for column in result["columns"]:
        digits, ours = column["digits"], row["cells"].get(column["name"])
        text = "" if ours is None else record.number(ours["mean"], digits)
        if ours is not None and ours["sd"] is not None:
            text += f" ± {record.number(ours['sd'], max(digits, 1))}"
        shown.append(text)
        if any(column["name"] in r["thesis"] for r in result["rows"]):
            shown.append(record.number(row["thesis"].get(column["name"]), digits))
    return shown


def page(
    result: dict[str, Any], thesis_data: str, size: str, current: Collection[str], picture: str | None = None
) -> str:
    """Write the table, below its figure where it has one, and where it and its models are from.

    Args:
        result: the record.
        thesis_data: what the thesis' figures are of.
        size: of the data, in words.
        current: folders of the models that the present source code trains.
        picture: file of the figure.
    """
    titles, data = header(result), result["data"]
    lines = [
        f"# {result['table']}: {result['title']}",
        "",
        f"Mnih 2010, §{result['section']}; the thesis' figures are of {thesis_data}.",
        f"Data: {data['name']} ({data['note']}), {size}; scale {result['scale']}, recipe {result['recipe']}.",
        "" if result["complete"] else "\n**Not all rows have been run yet.**",
        *([] if picture is None else [f"![{result['title']}]({picture})", ""]),
        "| " + " | ".join(titles) + " |",
        "|" + "|".join(["---"] * len(result["heads"]) + ["--:"] * (len(titles) - len(result["heads"]))) + "|",
        *("| " + " | ".join(cells(result, row)) + " |" for row in result["rows"]),
        "",
    ]
    lines += [f"- {question}: {answer_text(answer)}" for question, answer in result["answers"].items()]
    lines += ["", result["note"]] if result["note"] else []
    places = "; ".join(dict.fromkeys(_place(row["environment"]) for row in result["rows"]))
    return "\n".join([*lines, "", f"`{result['command']}` at {places}.", "", trained(result, current), ""])


def trained(result: dict[str, Any], current: Collection[str]) -> str:
    """Say at which commits the models of a record were trained, and which by earlier source code."""
    commits: dict[tuple[str, bool], list[str]] = {}
    for name, model in result["models"].items():
        commits.setdefault((_commit(model), name in current), []).append(model["label"])
    if len(commits) == 1 and all(now for _, now in commits):
        return f"Models trained at {next(iter(commits))[0]}."
    said = [
        f"{', '.join(labels)} at {commit}{'' if now else ' (by earlier source code)'}"
        for (commit, now), labels in commits.items()
    ]
    return f"Models trained: {'; '.join(said)}."


def _commit(where: dict[str, Any]) -> str:
    return f"commit {where['commit']}{' with changes' if where['dirty'] else ''}"


def _place(where: dict[str, Any]) -> str:
    """Say where a row was measured, and by which code."""
    return f"{_commit(where)}, Python {where['python']}, JAX {where['jax']}, {where['device']} ({where['cores']} cores)"


def answer_text(answer: Any) -> str:
    """Put an answer into words."""
    if isinstance(answer, bool):
        return "yes" if answer else "no"
    return ", ".join(answer) or "none" if isinstance(answer, list) else str(answer)
