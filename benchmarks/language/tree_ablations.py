"""Ablations of learned trees: the alternatives that sections 4.4 and 4.6.3 of the thesis name."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from benchmarks.core.comparisons import relative
from benchmarks.core.table import Column, Row, Table, seeded
from benchmarks.core.verdict import BELOW, NOT_CLAIMED, Claim
from benchmarks.language import measures
from benchmarks.language.claims import MUCH, SLIGHT, TextModels, percent
from benchmarks.language.scales import LanguageScale
from benchmarks.language.store import LanguageStore, Spec
from benchmarks.language.tables import PERPLEXITY

BASE = Spec("hlbl", tree=("adaptive", 0.0, 1))
LBL_EPOCHS = 3  # of the LBL whose vectors are clustered
PREDICTED, VECTORS, OF_LBL, AGAIN, OWN, EM30, EM100, WIDE = (
    "average predicted vectors", "context word vectors", "LBL word vectors", "a second bootstrap", "a variance each",
    "30 steps of EM", "100 steps of EM", "features ×2",
)  # fmt: skip


def rows(scale: LanguageScale, seeds: int | None) -> list[Row]:
    """Return the model of ADAPTIVE (T3), and others that each differ from it in one thing."""
    by_vectors = replace(BASE, tree_options=(("cluster", "vectors"),))
    models = {
        PREDICTED: BASE,
        VECTORS: by_vectors,
        OF_LBL: replace(by_vectors, features=Spec("lbl", recipe=(("epochs", LBL_EPOCHS),))),
        AGAIN: replace(BASE, features=BASE),
        OWN: replace(BASE, config=(("shared_variance", False),)),
        EM30: replace(BASE, tree_options=(("em_steps", 30),)),
        EM100: replace(BASE, tree_options=(("em_steps", 100),)),
        WIDE: replace(BASE, config=(("num_features", 2 * scale.num_features),), tree_of=BASE),
    }
    return [
        Row((name,), seeded(seeds or scale.seeds, spec), {}, measures.perplexity_and_minutes)
        for name, spec in models.items()
    ]


def claims(store: LanguageStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the thesis' claims about the alternatives, for which it gives no figures, and one expectation of ours."""
    models = TextModels(store, rows, part)

    def than(other: str, name: str, low: float, high: float) -> list:
        return [models.pair(name, other, claimed=(low, high), quantity=relative)]

    than_base = partial(than, PREDICTED)

    return [
        Claim("4.4", f"a tree from context word vectors is much worse (by more than {percent(MUCH)})",
              than_base(VECTORS, MUCH, np.inf)),
        Claim(f"4.4, {NOT_CLAIMED}", "a tree from the word vectors of the LBL is better",
              than_base(OF_LBL, *BELOW)),
        Claim("4.4", f"a second bootstrap improves the model slightly (by less than {percent(SLIGHT)})",
              than_base(AGAIN, -SLIGHT, 0.0)),
        Claim("4.4", f"one variance of both Gaussians has no effect (within {percent(SLIGHT)})",
              than(OWN, PREDICTED, -SLIGHT, SLIGHT)),
        Claim("4.4", f"more than 10 steps of EM do not improve the model much (by less than {percent(SLIGHT)})",
              [*than_base(EM30, -SLIGHT, np.inf), *than_base(EM100, -SLIGHT, np.inf)]),
        Claim("4.6.3", f"twice as many features do not improve the model substantially (by less than {percent(MUCH)})",
              than_base(WIDE, -MUCH, np.inf)),
    ]  # fmt: skip


TABLE = Table(
    LanguageStore, "tree-ablations", "4.4", "Ablations of learned trees", ("model",),
    (PERPLEXITY, Column("minutes", "minutes of training", 1)), rows,
    "The first row is T3, the HLBL over ADAPTIVE; each other row differs from it in one thing. Its tree is built from "
    "the average predicted vectors of a model over a random tree of the same seed, by 10 steps of EM of mixtures of "
    "two Gaussians with one variance, where the recipe `thesis` has a variance each. Context word vectors are those of "
    f"that model. The LBL whose vectors are clustered is trained for {LBL_EPOCHS} epochs. A second bootstrap builds "
    "the tree from the first row's model. The model of twice as many features has the first row's tree. The thesis, "
    "which would have preferred to cluster vectors of the next word, as of the LBL, gives no figures of these; words "
    "such as *slightly* have a number here. Minutes are of the last model alone.",
    claims, kept=True,
)  # fmt: skip
