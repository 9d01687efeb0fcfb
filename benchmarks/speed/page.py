"""The records of speed for people: tables with contenders as rows, as Markdown and for the terminal, and pictures."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.core import figure, record
from benchmarks.measurement import speed_record
from jaxfit.run_dir.provenance import VARIABLES

ABOUT = """\
Figures with brackets are medians over rounds, and their first and third quartile. In a round, all that is compared is
measured in turn, so that other load affects all of it alike. The records, speed.NAME.json, have all samples;
`python -m benchmarks compare` compares two of a name."""


PAGE = "speed.md"


def write(folder: Path, figures: Mapping[str, Any], name: str) -> None:
    """Write the page of all records in a folder, and a picture of each curve of one name."""
    for title, curve in figures.get("curves", {}).items():
        draw(curve, f"{name}: {title}", folder / picture(name, title))
    record.write_text(folder / PAGE, markdown(speed_record.read(folder)))


def markdown(result: Mapping[str, Any]) -> str:
    """Write all figures of a record."""
    return "\n".join(["# speed", "", ABOUT, "", *sections(result)])


def sections(result: Mapping[str, Any]) -> list[str]:
    """Write the lines of each name's figures: setting, tables, curves, and where they were measured."""
    lines: list[str] = []
    shown: dict[str, str] = {}  # tables, and under which name they are: limits belong to several names
    for name, figures in result["figures"].items():
        lines += [f"## {name}", ""]
        lines += [f"* {label}: {in_words(value)}" for label, value in figures["setting"].items()]
        lines += [f"* searched of {program}: {found['space']}" for program, found in figures.get("search", {}).items()]
        for title, rows in figures["tables"].items():
            lines += ["", f"### {title}", ""]
            if str(rows) in shown:
                lines.append(f"As under {shown[str(rows)]}.")
                continue
            shown[str(rows)] = name
            lines += table(*cells(rows))
        for title in figures.get("curves", {}):
            lines += ["", f"![{name}: {title}]({picture(name, title)})"]
        lines += ["", place(result["environment"][name]), ""]
    return lines


def table(heads: list[str], *rows: list[str]) -> list[str]:
    """Write the lines of a table, with figures aligned to the right."""
    return [_line(heads), "|---|" + "--:|" * (len(heads) - 1), *map(_line, rows)]


def place(where: Mapping[str, Any]) -> str:
    """Say in a sentence where, and by which programs, figures were measured."""
    memory = "" if where["memory"] is None else f", {where['memory'] / 1e9:.0f} GB"
    versions = ", ".join(f"{package} {version}" for package, version in where["versions"].items())
    precision = where["matmul_precision"] or "default"
    variables = "".join(f", {name} {where[name]}" for name in VARIABLES if where.get(name))
    date = f"On {where['date']}, at" if "date" in where else "At"  # older records have no date
    return (
        f"{date} commit {where['commit']}{' with changes' if where['dirty'] else ''}, on {where['cpu']}, "
        f"{where['threads']} threads{memory}, {where['os']}; device {where['device']}; Python {where['python']}, "
        f"{versions}; matrix precision {precision}{variables}."
    )


def cells(table: Mapping[str, Mapping[str, Any]]) -> Iterator[list[str]]:
    """Yield the lines of a table: its heads, then a row for each contender; empty where there is no figure."""
    columns = list(dict.fromkeys(column for row in table.values() for column in row))
    yield ["", *columns]
    for contender, row in table.items():
        yield [contender, *(in_words(row[column]) if column in row else "" for column in columns)]


def in_words(value: Any) -> str:
    """Write a figure; for samples, the median and the quartiles, which are None where a target was missed."""
    match value:
        case {"median": None, "quartiles": [None, None]}:
            return "missed"
        case {"median": median, "quartiles": [low, high]}:
            middle, first, third = ("∞" if each is None else in_words(each) for each in (median, low, high))
            return f"{middle} [{first}-{third}]"
        case None:
            return ""
        case list() | tuple():
            return ", ".join(map(in_words, value))
        case bool() | str():
            return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 or isinstance(value, int) else f"{value:.4g}"


def draw(curve: Mapping[str, Any], title: str, path: Path) -> None:
    """Draw the lines of a curve; its `log` and `log y` ask for logarithmic x and y axes."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    with figure.panels(path, title, figsize=(7, 4.5)) as ax:
        for number, (contender, points) in enumerate(curve["lines"].items()):
            ax.plot(*zip(*points, strict=True), figure.STYLES[number % len(figure.STYLES)], label=contender)
        ax.set(xlabel=curve["x"], ylabel=curve["y"])
        for key, scale, axis in (("log", ax.set_xscale, ax.xaxis), ("log y", ax.set_yscale, ax.yaxis)):
            if curve.get(key):
                scale("log")
                axis.set_major_locator(LogLocator(subs=(1, 2, 5)))  # labels that do not overlap, also of one decade
                axis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))
                axis.set_minor_formatter(NullFormatter())
        ax.legend()


def picture(name: str, title: str) -> str:
    """Return the file name of a curve's picture."""
    words = re.findall(r"\w+", f"{name} {title}")
    return f"speed.{'-'.join(words)}.png"


def _line(texts: list[str]) -> str:
    return "| " + " | ".join(texts) + " |"
