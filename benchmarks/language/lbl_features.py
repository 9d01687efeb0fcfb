"""The LBL with more features than the thesis gives it, which importance sampling makes affordable."""

from collections.abc import Sequence

import numpy as np

from benchmarks.core.table import Row, Table, seeded
from benchmarks.core.verdict import NOT_CLAIMED, TARGET, Claim
from benchmarks.language import measures
from benchmarks.language.claims import TextModels
from benchmarks.language.scales import LanguageScale
from benchmarks.language.store import LanguageStore, Spec
from benchmarks.language.tables import MIXTURES, kn
from benchmarks.language.tasks.store import SAMPLED
from jaxlm import models as registry

PTB = "ptb"
FIVE, FIVE_WIDE, TEN_WIDE = range(3)  # the rows
# row, column, and the column's highest value
TARGETS = (
    ("five context words have a perplexity of at most 123", FIVE_WIDE, "perplexity", 123.0),
    ("ten context words have a perplexity of at most 118.5", TEN_WIDE, "perplexity", 118.5),
    ("the mixture of that with KN5 has a perplexity of at most 104", TEN_WIDE, "fitted", 104.0),
)


def rows(scale: LanguageScale, seeds: int | None) -> list[Row]:
    """Return the LBL of other tables, and two with twice as many features, for contexts of 5 and of 10 words."""
    usual, recipe = scale.num_features, scale.adapt("lbl", "tuned", registry.get("lbl").recipes["tuned"][0])
    wide = (("num_features", 2 * usual), *SAMPLED)
    half = (("epochs", -(-recipe.epochs // 2)),)
    models = {
        ("LBL 5", f"{usual}"): Spec("lbl"),
        ("LBL 5", f"{2 * usual}"): Spec("lbl", config=wide, recipe=half),
        ("LBL 10", f"{2 * usual}"): Spec("lbl", config=(("context_size", 10), *wide), recipe=half),
    }
    return [Row(label, seeded(seeds or scale.seeds, spec, kn(5)), {}, measures.mixed) for label, spec in models.items()]


def claims(store: LanguageStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return what is to be expected of more features, and targets on the Penn Treebank."""
    models = TextModels(store, rows, part)
    names = list(models.rows)
    expected = f"3.4.2, {NOT_CLAIMED}"
    return [
        Claim(expected, "with twice as many features the LBL is better", [models.pair(names[FIVE_WIDE], names[FIVE])]),
        Claim(expected, "with as many features, ten context words are better than five",
              [models.pair(names[TEN_WIDE], names[FIVE_WIDE])]),
        *(
            Claim(TARGET, text, [models.compare("", [(names[row], column)], (-np.inf, most), np.positive)])
            for text, row, column, most in TARGETS if store.name == PTB
        ),
    ]  # fmt: skip


TABLE = Table(
    LanguageStore, "lbl-features", "3.4.2", "The LBL by number of features, alone and mixed with KN5",
    ("model", "features"), MIXTURES, rows,
    "The first row is the LBL of other tables, which has as many features as in the thesis and is trained by the "
    "softmax over all words. The others have twice as many, and are trained by importance sampling with 1,000 words "
    "that a minibatch shares, in half as many epochs, and take less time. All are evaluated by the "
    "softmax. The recipe was chosen by the validation text, with five context words.",
    claims, kept=True,
)  # fmt: skip
