"""A suite: the chapters of the thesis whose tables are made from one sort of data, by the models of one package."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from benchmarks.core.scale import Scale
from benchmarks.core.store import Store


@dataclass(frozen=True, kw_only=True)
class Suite:
    """What the tables of some chapters have in common.

    load(name of a data set, scale, folder of data sets or None) -> the data, as `store_class` takes them;
    speed_data() -> those that speed is measured on.
    """

    chapters: str
    scales: Mapping[str, Scale]
    data_sets: tuple[str, ...]  # names, the built-in ones first
    load: Callable[[str, Any, Path | None], Any]
    store_class: Any  # subclass of Store: (data, scale, recipe, work folder, show)
    speed_data: Callable[[], Any]

    def open(
        self, scale: str, data: str | None, data_dir: Path | None, recipe: str, work: Path, show: bool = False
    ) -> Store:
        """Load a data set, None: the scale's own, and open the store of its models."""
        # figures are to be equal, whatever a device's default
        jax.config.update("jax_default_matmul_precision", "highest")
        chosen = self.scales[scale]
        return self.store_class(self.load(data or chosen.data, chosen, data_dir), chosen, recipe, work, show)
