"""Figures of chapter 5 from their records, as PNG: ours, and the thesis' curve where its numbers are known."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.core import figure
from benchmarks.ratings.measures import in_pairs, less

RMSE = "validation RMSE (stars)"
THESIS = "thesis (Netflix Prize)"
# Figures 5.4 and 5.5: by how much the text says that the second is better than the first, bin by bin
KNOWN = {("PMF500", "CPMF500"): {10: -0.0017}, ("movie-bias", "CPMF"): {1: 0.0121, 3: 0.0505, 10: 0.0332}}


def features(result: dict[str, Any], path: Path) -> None:
    """Draw Figure 5.3: RMSE by number of features, ours on the test and the thesis' on validation."""
    part, measure = _part(result)
    with figure.panels(path, _title(result), ncols=2, figsize=(11, 5)) as (ours, theirs):
        models = list(dict.fromkeys(row["label"][0] for row in result["rows"]))
        for model, style in zip(models, figure.styles(len(models)), strict=True):
            rows = [row for row in result["rows"] if row["label"][0] == model]
            x = [int(row["label"][1].partition(" ")[0]) for row in rows]
            _curve(ours, x, [row["cells"][part] for row in rows], style, model)
            x = [int(row["label"][1].rpartition(" ")[2].rstrip(")")) for row in rows]
            theirs.plot(x, [row["thesis"]["valid"] for row in rows], style, label=model)
        for ax, title, ylabel in ((ours, _ours(result), measure), (theirs, f"{THESIS}, Table 5.2", RMSE)):
            ax.set(title=title, xscale="log", xlabel="features (logarithmic)", ylabel=ylabel)
            ticks = sorted({int(x) for line in ax.get_lines() for x in line.get_xdata()})
            ax.set_xticks(ticks, [str(tick) for tick in ticks])
            ax.minorticks_off()
            ax.legend()


def rated_sets(result: dict[str, Any], path: Path) -> None:
    """Draw Figures 5.1 and 5.2: RMSE by the size of the rated set, ours on the test; the thesis' first and last."""
    part, measure = _part(result)
    rbm, crbm = ([r for r in result["rows"] if r["label"][0] == model] for model in ("RBM", "CRBM"))
    with figure.panels(path, _title(result), ncols=2, figsize=(11, 5)) as (ours, theirs):
        x = [row["cells"]["rated"]["mean"] for row in crbm]
        _curve(ours, x, [row["cells"][part] for row in crbm], figure.STYLES[0], "CRBM")
        first = float(crbm[0]["label"][1].rstrip("%"))
        theirs.plot(
            [99 * first / 100, 99], [crbm[i]["thesis"]["valid"] for i in (0, -1)], "o--",
            label="CRBM: the first and the last are known",
        )  # fmt: skip
        for row, dashes in zip(rbm, ("-.", ":"), strict=False):
            label = f"RBM trained on {row['label'][1]} of the ratings"
            ours.axhline(row["cells"][part]["mean"], color="black", linestyle=dashes, label=label)
            theirs.axhline(row["thesis"]["valid"], color="black", linestyle=dashes, label=label)
        for ax, title, unit, ylabel in (
            (ours, _ours(result), "thousands", measure), (theirs, THESIS, "millions", RMSE)
        ):  # fmt: skip
            xlabel = f"user and movie pairs conditioned on ({unit})"
            ax.set(title=title, xlabel=xlabel, ylabel=ylabel)
            ax.legend()


def bins(result: dict[str, Any], path: Path) -> None:
    """Draw Figures 5.4 to 5.8: RMSE on bins of users; below it, paired differences of two models."""
    *rows, every = result["rows"]
    names = list(every["thesis"])
    ticks = [
        "{:.0f}-{:.0f}\n{:,.0f}".format(*(row["cells"][name]["mean"] for name in ("fewest", "most", "ratings")))
        for row in rows if "ratings" in row["cells"]
    ]  # fmt: skip
    rows = [row for row in rows if "ratings" in row["cells"]]
    x = range(1, 1 + len(rows))
    with figure.panels(path, _title(result), nrows=2, figsize=(9, 7.5), height_ratios=(2, 1), sharex=True) as (
        top,
        low,
    ):
        for name, style in zip(names, figure.styles(len(names)), strict=True):
            mean = every["cells"][name]["mean"]
            shown = name + _here(result, names.index(name), name)
            label = f"{shown}: {mean:.4f} on all users (thesis: {every['thesis'][name]:.4f})"
            _curve(top, x, [row["cells"][name] for row in rows], style, label)
        for one, other in in_pairs(names):
            what = less(one, other)
            _curve(low, x, [row["cells"][what] for row in rows], "o-", f"{what}: above 0, {other} is better")
            known = KNOWN.get((one, other), {})
            if known:
                low.plot(
                    list(known), list(known.values()), "*", markersize=12, color=low.get_lines()[-1].get_color(),
                    markeredgecolor="black", label=f"{what}: the thesis, where its text tells",
                )  # fmt: skip
        low.axhline(0, color="black", linewidth=0.8)
        top.set(title=f"{_ours(result)}; bands: 95 % intervals", ylabel="RMSE (stars)")
        low.set(
            ylabel="difference (stars)",
            xlabel="training ratings of the bin's users, and ratings predicted; bins of equally many users",
        )
        low.set_xticks(list(x), ticks, fontsize=8)
        top.legend()
        low.legend(fontsize=8)


def movies(result: dict[str, Any], path: Path) -> None:
    """Draw RMSE on bins of movies, and the difference of two models, by the geometric mean of a bin's ends."""
    rows = [row for row in result["rows"][:-1] if "ratings" in row["cells"]]
    x = [np.sqrt(max(1.0, row["cells"]["fewest"]["mean"]) * max(1.0, row["cells"]["most"]["mean"])) for row in rows]
    _two_and_gap(result, path, rows, x, "training ratings of the bin's movies (logarithmic)")


def shares(result: dict[str, Any], path: Path) -> None:
    """Draw RMSE, and the difference of two models, by the number of ratings trained on."""
    x = [1000 * row["cells"]["ratings"]["mean"] for row in result["rows"]]
    _two_and_gap(result, path, result["rows"], x, "ratings trained on (logarithmic)")


def _two_and_gap(
    result: dict[str, Any], path: Path, rows: Sequence[dict[str, Any]], x: Sequence[float], xlabel: str
) -> None:
    *names, gap = list(rows[0]["cells"])[-3:]
    with figure.panels(path, _titled(result), ncols=2, figsize=(11, 4.5)) as (both, apart):
        for name, style in zip(names, figure.styles(len(names)), strict=True):
            _curve(both, x, [row["cells"][name] for row in rows], style, name)
        _curve(apart, x, [row["cells"][gap] for row in rows], "o-", f"{gap}: above 0, {names[1]} is better")
        apart.axhline(0, color="black", linewidth=0.8)
        for ax, ylabel in ((both, "RMSE (stars; bands: 95 % intervals)"), (apart, "difference (stars)")):
            ax.set(xscale="log", xlabel=xlabel, ylabel=ylabel)
            ax.legend()


def decays(result: dict[str, Any], path: Path) -> None:
    """Draw RMSE and the number of singular values by the decay, a line for each number of features."""
    part, measure = _part(result)
    with figure.panels(path, _titled(result), ncols=2, figsize=(11, 4.5)) as (error, rank):
        sizes = dict.fromkeys(row["label"][0] for row in result["rows"])
        for size, style in zip(sizes, figure.styles(len(sizes)), strict=True):
            rows = [row for row in result["rows"] if row["label"][0] == size]
            x = [float(row["label"][1]) for row in rows]
            error.plot(x, [row["cells"][part]["mean"] for row in rows], style, label=f"{size} features")
            rank.plot(x, [row["cells"]["rank"]["mean"] for row in rows], style, label=f"{size} features")
        error.set(xlabel="decay of features", ylabel=measure.replace("; bands: 95 % intervals", ""))
        rank.set(xlabel="decay of features", ylabel="singular values above 1 % of the largest")
        for ax in (error, rank):
            ax.legend()


def features_by_model(result: dict[str, Any], path: Path) -> None:
    """Draw RMSE by the number of features, a line for each model."""
    part, measure = _part(result)
    with figure.panels(path, _titled(result), figsize=(7, 5)) as ax:
        models = dict.fromkeys(row["label"][0] for row in result["rows"])
        for model, style in zip(models, figure.styles(len(models)), strict=True):
            rows = [row for row in result["rows"] if row["label"][0] == model]
            x = [int(row["label"][1]) for row in rows]
            ax.plot(x, [row["cells"][part]["mean"] for row in rows], style, label=model)  # bands would overlap
        ax.set(xscale="log", xlabel="features (logarithmic)", ylabel=measure.replace("; bands: 95 % intervals", ""))
        ticks = sorted({int(row["label"][1]) for row in result["rows"]})
        ax.set_xticks(ticks, [str(tick) for tick in ticks])
        ax.minorticks_off()
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)  # below: lines fill the axes


def _titled(result: dict[str, Any]) -> str:
    return f"{result['title']}: {_ours(result)}"


def _here(result: dict[str, Any], number: int, name: str) -> str:
    """Return the size of our model where it differs from the thesis'; else ""."""
    if not name[-1].isdigit():
        return ""
    config = result["models"][result["rows"][0]["models"][number]]["config"]
    size = config.get("num_features", config.get("num_hidden"))
    return "" if name.endswith(str(size)) else f" (here {size})"


def _curve(ax: Any, x: Sequence[float], found: list[dict[str, Any]], style: str, label: str) -> None:
    """Draw means, and a band of their intervals."""
    y = [cell["mean"] for cell in found]
    (line,) = ax.plot(x, y, style, label=label)
    if all("interval" in cell for cell in found):
        low, high = zip(*(cell["interval"] for cell in found), strict=True)
        ax.fill_between(x, low, high, color=line.get_color(), alpha=0.15, linewidth=0)


def _part(result: dict[str, Any]) -> tuple[str, str]:
    """Return the part of the data that a figure shows, and the label of its axis."""
    part = "test" if "test" in result["rows"][0]["cells"] else "valid"
    count = result["data"]["ratings"][part]
    return part, f"{'test' if part == 'test' else 'validation'} RMSE (stars; {count:,} ratings; bands: 95 % intervals)"


def _title(result: dict[str, Any]) -> str:
    number = result["table"].removeprefix("figure-")
    return f"Figure {number} of Mnih (2010): {result['title']}"


def _ours(result: dict[str, Any]) -> str:
    return f"ours ({result['data']['name']}, scale {result['scale']}, recipe {result['recipe']})"
