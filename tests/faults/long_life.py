"""Many trainings in one process, each of other shapes: what memory and memory maps the process has after each.

`python tests/faults/long_life.py NAME RECORD.json FIGURE.png NUMBER` adds such a series to a record, and draws it.
"""

import dataclasses
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import jaxcf.models
import jaxcf.training
import jaxlm.models
import jaxlm.training
from jaxcf.data.ratings import Catalogue, Dataset, Ratings, RatingScale
from jaxlm.data.corpus import Corpus
from jaxlm.data.vocabulary import Vocabulary

LANGUAGE, RATINGS = ("lbl", "nplm", "hlbl"), ("pmf", "rbm", "cpmf", "crbm", "svd-bias")
KINDS = [name for pair in zip(LANGUAGE * 5, RATINGS * 3, strict=True) for name in pair]


def corpus(num_words: int) -> Corpus:
    """Draw a text of words at random, of which there are `num_words`."""
    draw = np.random.default_rng(0)
    train, valid, test = (draw.integers(num_words, size=size).astype(np.int32) for size in (2000, 100, 100))
    counts = -np.sort(-np.bincount(train, minlength=num_words))
    words = ("<eos>", *(f"w{i:05}" for i in range(1, num_words)))
    return Corpus("random", train, valid, test, Vocabulary(words, counts), str(num_words), "drawn at random")


def ratings(num_users: int, num_items: int) -> Dataset:
    """Draw ratings at random: of a third of all pairs for training, and a tenth for validation."""
    draw = np.random.default_rng(0)
    user, item = np.divmod(draw.permutation(num_users * num_items).astype(np.int32), num_items)
    stars = draw.integers(1, 6, len(user)).astype(np.float32)
    parts = [Ratings(user[k::10], item[k::10], stars[k::10]) for k in range(4)]
    train = Ratings(*(np.concatenate(field) for field in zip(*[part[:3] for part in parts[:3]], strict=True)))
    catalogue = Catalogue(np.arange(num_users), np.arange(num_items), RatingScale(1, 5, 1))
    return Dataset("random", train, parts[3], None, catalogue, f"{num_users} {num_items}", "drawn at random")


def train(number: int, directory: Path) -> str:
    """Train and use the model `number`, whose shapes no other has; its name."""
    name, k = KINDS[number % len(KINDS)], number
    package = jaxlm if name in LANGUAGE else jaxcf
    recipe, config = package.models.get(name).recipe("tuned")
    recipe = dataclasses.replace(recipe, epochs=1, batch_size=40 + 4 * (k % 37))
    if package is jaxlm:
        config |= {"num_features": 3 + k % 31, "context_size": 1 + k % 4}
        model = jaxlm.training.train(name, corpus(30 + k), directory, recipe=recipe, config=config).model
        model.log_prob(["w00001", "w00002"])
        model.score("w00001 w00002")
    else:
        size = {"rbm": "num_hidden", "crbm": "num_hidden"}.get(name, "num_features")
        config |= {size: 3 + k % 31}
        model = jaxcf.training.train(name, ratings(40 + k, 20 + k % 7), directory, recipe=recipe, config=config).model
        model.predict(np.arange(20), np.arange(20))
    return name


def resident_megabytes() -> float:
    """Return the memory that this process has in use, as Linux counts it."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def memory_maps() -> int:
    """Count this process' memory maps, of which Linux allows 65,530."""
    with open("/proc/self/maps", "rb") as f:
        return sum(1 for _ in f)


def series(number: int) -> Iterator[dict]:
    """Train this number of models, and yield after each what the process has."""
    for k in range(number):
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            name = train(k, Path(folder) / "model")
        yield {
            "model": name,
            "seconds": round(time.perf_counter() - began, 2),
            "megabytes": round(resident_megabytes(), 1),
            "maps": memory_maps(),
        }


def plot(record: dict, path: str) -> None:
    """Draw the series of `docs/reliability-memory.json`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.2), layout="constrained")
    axes = figure.subplots(1, 2)
    for name, lines in record["series"].items():
        axes[0].plot([value / 1000 for value in lines["megabytes"]], label=name)
        axes[1].plot(lines["maps"], label=name)
    axes[0].set_ylabel("resident memory, GB")
    axes[1].set_ylabel("memory maps")
    axes[1].axhline(65_530, color="gray", linestyle=":", label="allowed by Linux")
    for place in axes:
        place.set_xlabel("trainings of different shapes in one process")
        place.set_ylim(bottom=0)
        place.legend(fontsize="small")
    figure.savefig(path, dpi=110)


def main(name: str, record: str, figure: str, number: str) -> None:
    """Train, and keep the series under its name in the record, of which a figure is drawn."""
    place = Path(record)
    known = json.loads(place.read_text()) if place.exists() else {"series": {}}
    lines: list[dict] = []
    for line in series(int(number)):
        lines.append(line)
        print(len(lines), line, flush=True)
        known["series"][name] = {of: [line[of] for line in lines] for of in ("megabytes", "maps")}
        place.write_text(json.dumps(known))  # after each: the process may not reach the end
    plot(known, figure)


if __name__ == "__main__":
    main(*sys.argv[1:])
