"""`info DIR --plot FILE`: the learning curve of a training, from its journal."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxfit.cli.parser import Parser
from jaxfit.errors import UserError, missing_package
from jaxfit.run_dir.atomic import replacing

FORMATS = ("png", "svg", "pdf")


def add(parser: Parser) -> None:
    """Add the option that names the file."""
    parser.add_argument("--plot", metavar="FILE", help=f"draw the learning curve: .{', .'.join(FORMATS)}")


def draw(history: Sequence[Mapping[str, Any]], title: str, out: Path | str, where: object, last: bool = False) -> None:
    """Draw how metrics went from epoch to epoch, and the best epoch on validation.

    Args:
        history: its epochs, as the journal gives them.
        title: of the figure.
        out: the file; its suffix says in which format.
        where: the model's folder, for messages.
        last: whether the model is that of the last epoch; then the best one is not marked.

    Raises:
        UserError: There is nothing to draw, no such format, or no matplotlib.
    """
    out = Path(out)
    if out.suffix[1:] not in FORMATS:
        raise UserError("a figure has no such format", out, f"name a file that ends in .{', .'.join(FORMATS)}")
    if not history:
        raise UserError(
            "there is no learning curve: no epoch of a training is recorded",
            where,
            "only models that are trained in epochs have one",
        )
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    except ModuleNotFoundError:
        raise missing_package("matplotlib", "--plot") from None

    epochs = [line["epoch"] + 1 for line in history]
    best = min(range(len(history)), key=lambda i: history[i]["valid"])
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    shown = [_shown(line) for line in history]
    for name in shown[-1]:
        axes.plot(epochs, [values.get(name, math.nan) for values in shown], marker="o", markersize=3, label=name)
    if not last:
        axes.axvline(epochs[best], color="grey", linestyle=":", label=f"best epoch: {epochs[best]}")
    axes.set(title=title, xlabel="epoch")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend()
    with replacing(out) as aside:
        figure.savefig(aside, format=out.suffix[1:], dpi=150)


def _shown(line: Mapping[str, Any]) -> Mapping[str, float]:
    """Return what a line of the journal says as people read it; earlier versions wrote the means alone."""
    shown = line.get("shown")
    values = shown if shown and isinstance(shown, dict) else {name: line.get(name) for name in ("train", "valid")}
    return {name: value for name, value in values.items() if type(value) is float}
