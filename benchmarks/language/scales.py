"""The sizes of the benchmarks of language models, and their texts."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np

from benchmarks.core import scale as core
from benchmarks.data import sets as data
from jaxfit.errors import UserError
from jaxlm.data.corpus import Corpus
from jaxlm.data.files import EOS
from jaxlm.data.synthetic import planted
from jaxlm.data.vocabulary import Vocabulary


@dataclass(frozen=True)
class LanguageScale(core.Scale):
    """A scale of language models: it also shrinks repetitions and, for the tests only, rows."""

    dimensions: tuple[int, int, int, int]  # features, for the thesis' 25, 50, 75 and 100
    seeds: int = 3  # Table 4.4
    num_hidden: int = 1000  # Table 3.1
    random_trees: int = 4  # Table 4.1
    contexts: tuple[int, ...] = (1, 2, 3, 5, 10, 20)  # Table 4.7
    subtrees: int = 4  # Table 4.6: how many of S1-S4 are replicated
    subsets: int = 8  # Tables 4.8 and 4.9
    events: int | None = None  # of the training text; validation and test are cut as well

    @property
    def num_features(self) -> int:
        """Features of a model, unless its spec says otherwise."""
        return self.dimensions[-1]


MANY_WORDS = 20_000  # in a vocabulary; with more, the softmax over all words takes long on a CPU
_QUICK = {"batch_size": 100, "rate": {"*": 0.1}}
_SMALL = {"batch_size": 500, "rate": {"*": 0.02}, "decay": {"*": 0.2, "b": 0.0}, "epochs": 6}
_SMALL_RBM = {"batch_size": 250, "rate": {"*": 0.02}, "epochs": 15}
_THESIS = (25, 50, 75, 100)
SCALES: Mapping[str, LanguageScale] = {
    scale.name: scale
    for scale in (
        LanguageScale(
            "tiny", "a planted language, for the tests: seconds", "planted", (2, 2, 8, 8),  # sizes repeat: fewer models
            seeds=1, num_hidden=8, random_trees=2, contexts=(2, 5), subtrees=1, subsets=2, events=3000, epochs=2,
            window=0.01,
            tuned={
                "lbl": _QUICK, "hlbl": {**_QUICK, "decay": {"*": 0.1, "b": 0.0}}, "docnade-lm": {"rate": {"*": 0.03}},
            },
        ),
        LanguageScale(
            "smoke", "65,000 words of CPython's own prose: minutes on two cores", "prose", (10, 20, 30, 40),
            num_hidden=100, random_trees=2,
            tuned={
                "lbl": _SMALL, "hlbl": _SMALL, "frbm": _SMALL_RBM,
                "tfrbm": {**_SMALL_RBM, "rate": {"*": 0.01}, "epochs": 8},
            },
        ),
        LanguageScale(
            "cpu", "the Penn Treebank, models of the thesis' size, FRBMs with fewer hidden units: hours on two cores",
            "ptb", _THESIS, num_hidden=250,
        ),
        LanguageScale("full", "14 million words, as in the thesis: for a GPU", "holmes", _THESIS),
    )
}  # fmt: skip


def text(name: str, scale: LanguageScale, data_dir: Path | None = None) -> Corpus:
    """Load a text at this scale: whole, or the beginning of each of its parts, cut at a line end."""
    if scale.events is None:
        return data.load(name, data_dir)
    wanted = (scale.events, scale.events // 5, scale.events // 5)
    if name == "planted":  # few words, which depend on the last ones, so that a little text shows this
        return planted(jax.random.key(0), wanted, num_words=60, num_features=4, strength=3.0)[0]
    whole, parts = data.load(name, data_dir), []
    for ids, events in zip((whole.train, whole.valid, whole.test), wanted, strict=True):
        ends = np.flatnonzero(ids[:events] == whole.vocabulary.eos)
        if len(ends) == 0:
            raise UserError(f"no line ends within {events} events", name, "choose a larger --scale")
        parts.append(ids[: ends[-1] + 1])
    return whole._replace(train=parts[0], valid=parts[1], test=parts[2])


def speed_text(num_words: int = 10_000, events: int = 100_000) -> Corpus:
    """Draw a text by Zipf's law, to measure speed on; by default, its vocabulary is as large as the Penn Treebank's."""
    rates = 1 / np.arange(1, num_words + 1)
    draws = np.asarray(jax.random.uniform(jax.random.key(0), (events,)))
    drawn = np.searchsorted(np.cumsum(rates / rates.sum()), draws)
    ids = np.minimum(drawn, num_words - 1).astype(np.int32)
    words = Vocabulary((EOS, *(f"w{i}" for i in range(1, num_words))))
    note = f"{events:,} words by Zipf's law, {num_words:,} different ones"
    return Corpus("zipf", ids, ids[:1000], ids[:1000], words, "", note)
