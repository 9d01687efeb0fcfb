"""Neural language models other than the thesis', beside its own: their rows."""

from benchmarks.core.table import Row, Table
from benchmarks.language.measures import mixed
from benchmarks.language.scales import Scale
from benchmarks.language.store import Spec
from benchmarks.language.suite import SUITE
from benchmarks.language.tables import MIXTURES, kn, seeded


def neural_models(scale: Scale, seeds: int | None) -> list[Row]:
    """The NPLM and the LBL with the same context, alone and mixed with KN5."""
    return [
        Row((label,), tuple((Spec(model, seed), kn(5)) for seed in seeded(scale, seeds)), {}, mixed)
        for label, model in (("NPLM", "nplm"), ("LBL", "lbl"))
    ]


TABLES = {
    "neural-models": Table(
        SUITE, "neural-models", "2.2", "The NPLM beside the LBL, alone and mixed with Kneser-Ney", ("model",), MIXTURES,
        neural_models,
        "Models of 100 features and a context of 5 words at the scales cpu and full; recipes were chosen by the "
        "validation text of the Penn Treebank. Mixtures are with the interpolated KN5.",
    )
}  # fmt: skip
