"""Figures as PNG. matplotlib is imported when a figure is drawn, and draws into files alone (Agg)."""

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
    """Return the styles of so many lines; they repeat where there are more lines than styles."""
    return [STYLES[k % len(STYLES)] for k in range(number)]


@contextmanager
def panels(path: Path, title: str, **layout: Any) -> Iterator[Any]:
    """Draw axes side by side or one above the other, under a title; saved at the end, whole or not at all."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from PIL import Image

    figure, axes = plt.subplots(**layout, layout="constrained")
    try:
        letters = 1 + int(72 * figure.get_figwidth() / (0.52 * TITLE))  # of that mean width
        figure.suptitle(textwrap.fill(title, letters), fontsize=TITLE)
        yield axes
        for ax in np.ravel(axes):
            ax.grid(alpha=0.3)
        with replacing(path) as part:
            drawn = BytesIO()
            figure.savefig(drawn, format="png", dpi=110)
            # few colours make a file a third as large; without a version in it, the same figures give the same file
            few = Image.open(drawn).convert("RGB").quantize(COLOURS, method=Image.Quantize.FASTOCTREE)
            few.save(part, format="png", optimize=True)
    finally:
        plt.close(figure)
