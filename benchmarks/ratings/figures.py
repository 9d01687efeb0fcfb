"""Figures of chapter 5 from their records, as PNG: ours, and the thesis' curve where its numbers are known.

matplotlib is imported when a figure is drawn, and draws into files alone (Agg).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jaxfit.run_dir.atomic import replacing

RMSE = "validation RMSE (stars)"
THESIS = "thesis (Netflix Prize)"
STYLES = ("o-", "s-", "^-", "D-")
# Figures 5.4 and 5.5: by how much the text says that the second is better than the first, bin by bin
KNOWN = {("PMF500", "CPMF500"): {10: -0.0017}, ("movie-bias", "CPMF"): {1: 0.0121, 3: 0.0505, 10: 0.0332}}


@contextmanager
def panels(path: Path, title: str, **layout: Any) -> Iterator[Any]:
    """Draw axes side by side or one above the other, under a title; saved at the end, whole or not at all."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(**layout, layout="constrained")
    try:
        figure.suptitle(title, fontsize=11)
        yield axes
        for ax in figure.axes:
            ax.grid(alpha=0.3)
        with replacing(path) as part:
            # no version in the file: the same figures give the same file
            figure.savefig(part, format="png", dpi=110, metadata={"Software": None})
    finally:
        plt.close(figure)


def features(result: dict[str, Any], path: Path) -> None:
    """Draw Figure 5.3: validation RMSE by number of features, ours and the thesis'."""
    with panels(path, _title(result), ncols=2, figsize=(11, 5)) as (ours, theirs):
        models = list(dict.fromkeys(row["label"][0] for row in result["rows"]))
        for model, style in zip(models, STYLES, strict=True):
            rows = [row for row in result["rows"] if row["label"][0] == model]
            x = [int(row["label"][1].partition(" ")[0]) for row in rows]
            _curve(ours, x, [row["cells"]["valid"] for row in rows], style, model)
            x = [int(row["label"][1].rpartition(" ")[2].rstrip(")")) for row in rows]
            theirs.plot(x, [row["thesis"]["valid"] for row in rows], style, label=model)
        for ax, title in ((ours, _ours(result)), (theirs, f"{THESIS}, Table 5.2")):
            ax.set(title=title, xscale="log", xlabel="features (logarithmic)", ylabel=RMSE)
            ticks = sorted({int(x) for line in ax.get_lines() for x in line.get_xdata()})
            ax.set_xticks(ticks, [str(tick) for tick in ticks])
            ax.minorticks_off()
            ax.legend()


def rated_sets(result: dict[str, Any], path: Path) -> None:
    """Draw Figures 5.1 and 5.2: RMSE by the size of the rated set; the thesis' first and last."""
    rbm, crbm = ([r for r in result["rows"] if r["label"][0] == model] for model in ("RBM", "CRBM"))
    with panels(path, _title(result), ncols=2, figsize=(11, 5)) as (ours, theirs):
        x = [row["cells"]["rated"]["mean"] for row in crbm]
        _curve(ours, x, [row["cells"]["valid"] for row in crbm], STYLES[0], "CRBM")
        first = float(crbm[0]["label"][1].rstrip("%"))
        theirs.plot(
            [99 * first / 100, 99], [crbm[i]["thesis"]["valid"] for i in (0, -1)], "o--",
            label="CRBM: the first and the last are known",
        )  # fmt: skip
        for row, dashes in zip(rbm, ("-.", ":"), strict=False):
            label = f"RBM trained on {row['label'][1]} of the ratings"
            ours.axhline(row["cells"]["valid"]["mean"], color="black", linestyle=dashes, label=label)
            theirs.axhline(row["thesis"]["valid"], color="black", linestyle=dashes, label=label)
        for ax, title, unit in ((ours, _ours(result), "thousands"), (theirs, THESIS, "millions")):
            xlabel = f"user and movie pairs conditioned on ({unit})"
            ax.set(title=title, xlabel=xlabel, ylabel=RMSE)
            ax.legend()


def bins(result: dict[str, Any], path: Path) -> None:
    """Draw Figures 5.4 to 5.8: RMSE on bins of users; below it, how much better one model is than another."""
    *rows, every = result["rows"]
    ranges = [f"{row['cells']['fewest']['mean']:.0f}-{row['cells']['most']['mean']:.0f}" for row in rows]
    names = [column["name"] for column in result["columns"] if column["name"] not in ("fewest", "most")]
    with panels(path, _title(result), nrows=2, figsize=(9, 7.5), height_ratios=(2, 1), sharex=True) as (
        top,
        low,
    ):
        for name, style in zip(names, STYLES, strict=False):
            found = [(i, row["cells"][name]) for i, row in enumerate(rows, 1) if name in row["cells"]]
            mean = every["cells"][name]["mean"]
            shown = name + _here(result, names.index(name), name)
            label = f"{shown}: {mean:.4f} on all users (thesis: {every['thesis'][name]:.4f})"
            _curve(top, [i for i, _ in found], [cell for _, cell in found], style, label)
        for one, other in zip(names[::2], names[1::2], strict=True):
            both = [(i, r["cells"]) for i, r in enumerate(rows, 1) if {one, other} <= set(r["cells"])]
            gaps = [cells[one]["mean"] - cells[other]["mean"] for _, cells in both]
            what = f"{one} less {other}"
            (line,) = low.plot([i for i, _ in both], gaps, "o-", label=f"{what}: above 0, {other} is better")
            known = KNOWN.get((one, other), {})
            if known:
                low.plot(
                    list(known), list(known.values()), "*", markersize=12, color=line.get_color(),
                    markeredgecolor="black", label=f"{what}: the thesis, where its text tells",
                )  # fmt: skip
        low.axhline(0, color="black", linewidth=0.8)
        top.set(title=_ours(result), ylabel=RMSE)
        low.set(
            ylabel="difference (stars)",
            xlabel="training ratings of the bin's users; bins of equally many users",
        )
        low.set_xticks(range(1, len(rows) + 1), ranges, rotation=30, ha="right")
        top.legend()
        low.legend(fontsize=8)


def _here(result: dict[str, Any], number: int, name: str) -> str:
    """Return the size of our model, where it is not the thesis'."""
    if not name[-1].isdigit():
        return ""
    config = result["models"][result["rows"][0]["models"][number]]["config"]
    size = config.get("num_features", config.get("num_hidden"))
    return "" if name.endswith(str(size)) else f" (here {size})"


def _curve(ax: Any, x: Sequence[float], found: list[dict[str, Any]], style: str, label: str) -> None:
    """Draw means, with standard deviations where there are several seeds."""
    spread = [cell["sd"] for cell in found]
    y = [cell["mean"] for cell in found]
    ax.errorbar(x, y, None if None in spread else spread, fmt=style, capsize=3, label=label)


def _title(result: dict[str, Any]) -> str:
    number = result["table"].removeprefix("figure-")
    return f"Figure {number} of Mnih (2010): {result['title']}"


def _ours(result: dict[str, Any]) -> str:
    return f"ours ({result['data']['name']}, scale {result['scale']}, recipe {result['recipe']})"
