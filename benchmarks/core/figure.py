"""Figures as PNG. matplotlib is imported when a figure is drawn, and draws only into files (Agg)."""

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from jaxfit.run_dir.atomic import replacing

COLOURS = 128
TITLE = 11  # points
STYLES = ("o-", "s-", "^-", "D-", "v-", "P-")  # of lines


def styles(number: int) -> list[str]:
    """Return a style for each of `number` lines; they repeat where there are more lines than styles."""
    return [STYLES[k % len(STYLES)] for k in range(number)]


@contextmanager
def panels(path: Path, title: str, **layout: Any) -> Iterator[Any]:
    """Give axes to draw on, under a title; the figure is saved at the end, whole or not at all.

    Args:
        path: of the PNG.
        title: wrapped to the width of the figure.
        layout: arguments of `matplotlib.pyplot.subplots`.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from PIL import Image

    figure, axes = plt.subplots(**layout, layout="constrained")
    try:
        letters = 1 + int(72 * figure.get_figwidth() / (0.52 * TITLE))  # whose mean width is 0.52 of their size
        figure.suptitle(textwrap.fill(title, letters), fontsize=TITLE)
        yield axes
        for ax in np.ravel(axes):
            ax.grid(alpha=0.3)
        with replacing(path) as part:
            drawn = BytesIO()
            figure.savefig(drawn, format="png", dpi=110)
            # few colours make a file a third as large; without a version number in it, equal figures give equal files
            few = Image.open(drawn).convert("RGB").quantize(COLOURS, method=Image.Quantize.FASTOCTREE)
            few.save(part, format="png", optimize=True)
    finally:
        plt.close(figure)
