"""The few recorded rows that pages for newcomers show: the results of README.md, and what helps to choose a model."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.core import record
from benchmarks.report import maps

Labels = Sequence[tuple[str, ...]]  # of rows, without empty cells, or only their first cells
# record -> which of its rows
RESULTS: Mapping[str, Labels] = {
    "table-4.4.ptb.cpu": (("HLBL", "T1", "RANDOM"), ("HLBL", "T7", "ADAPTIVE(0.4) ×4"), ("LBL",), ("Int. KN6",)),
    "table-4.4.holmes.full.thesis": (("HLBL", "T1", "RANDOM"), ("HLBL", "T7", "ADAPTIVE(0.4) ×4"), ("Int. KN6",)),
    "table-3.1.ptb.cpu": (("Temporal FRBM", "2"),),
    "table-5.2.ml-1m.cpu": (("PMF",), ("Conditional PMF",)),
    "table-5.1.ml-1m.cpu": (("RBM",),),
    "docnade-table-1.20news.cpu": (("DocNADE",),),
}
TEXT: Mapping[str, Labels] = {
    "slides-ptb.ptb.cpu": (
        ("KN5",), ("class 5-gram",), ("cache",), ("NPLM",), ("NLBL",), ("RNN",), ("LSTM",), ("GRU",),
    ),
    "table-4.4.ptb.cpu": (("HLBL", "T1", "RANDOM"), ("HLBL", "T7", "ADAPTIVE(0.4) ×4"), ("LBL",)),
    "table-3.1.ptb.cpu": (("FRBM", "2"), ("Temporal FRBM", "2"), ("LBL", "2")),
}  # fmt: skip
RATINGS: Mapping[str, Labels] = {
    "table-5.2.ml-1m.cpu": (
        ("User and movie bias",), ("Online SVD", "100"), ("PMF", "10"), ("PMF", "100"), ("Conditional PMF", "100"),
    ),
    "table-5.1.ml-1m.cpu": (("RBM", "100"), ("CRBM2", "100")),
}  # fmt: skip
RANKING = "ranking.ml-1m.cpu"
PUBLISHED = ("perplexity", "some", "valid")  # columns of published figures, the first that a row has
MIXED = "fitted"  # the column of a mixture whose weights are fitted
# short names of data sets
NAMES = {"ptb": "Penn Treebank", "holmes": "novels", "ml-1m": "MovieLens 1M", "20news": "20 Newsgroups"}


def lines(folder: Path, chosen: Mapping[str, Labels], link: str, *, mixed: bool = False) -> list[str]:
    """Return a Markdown table of recorded rows.

    Args:
        folder: of the records; those that are not there are left out.
        chosen: record -> the labels of its rows; missing rows are left out, and of rows that begin with the same label,
            such as the sizes of a model, only the one that validation chooses is shown.
        link: the folder of the records as seen from the page.
        mixed: whether to show the mixture with the record's n-gram model, too.
    """
    heads = ["model", "data", "test"] + ["mixture"] * mixed + ["published", "record"]
    found = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for name, labels in chosen.items():
        path = folder / f"{name}.json"
        if result := record.read_table(path):  # records of another folder may be few
            found += _rows(result, name, labels, link, mixed)
    return found


def table(folder: Path, name: str) -> list[str]:
    """Return the whole table of a record, in Markdown; nothing if it is not there."""
    path = folder / f"{name}.md"
    page = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [line for line in page if line.startswith("|")]


def _rows(result: dict[str, Any], name: str, labels: Labels, link: str, mixed: bool) -> Iterable[str]:
    column = next(column["name"] for column in result["columns"] if column["name"] in maps.BEST)
    measure, digits = maps.BEST[column]
    rows = {tuple(filter(None, row["label"])): row for row in result["rows"]}
    for begin in labels:
        alike = [label for label in rows if label[: len(begin)] == begin]
        if not alike:
            continue
        label = min(alike, key=lambda one: maps.validation(rows[one], result["models"]) or 0.0)
        row = rows[label]
        of_published = next((each for each in PUBLISHED if each in row["thesis"]), "")
        published, shown = row["thesis"].get(of_published), "some" if of_published == "some" else column
        mixture = row["cells"].get(MIXED)
        cells = [
            " ".join(label),
            NAMES.get(result["data"]["name"], result["data"]["name"]),
            f"{measure.removeprefix('test ')} {maps.figure(row, shown, digits)}",
            *(["" if mixture is None else record.number(mixture["mean"], digits)] if mixed else []),
            "" if published is None else record.number(published, digits),
            f"[{result['table']}]({link}/{name}.md)",
        ]
        yield f"| {' | '.join(cells)} |"
