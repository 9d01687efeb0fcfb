"""Tables 3.2 and 4.1 to 4.9 of the thesis, and one of neural models: their rows, and the thesis' figures."""

from dataclasses import replace
from functools import partial

from benchmarks.core.table import Column, Row, Table, seeded
from benchmarks.language import claims, measures
from benchmarks.language.scales import LanguageScale
from benchmarks.language.store import RANDOM, LanguageStore, Spec

PERPLEXITY = Column("perplexity", "perplexity", first=True)
FITTED = Column("fitted", "fitted mixture")
MIXTURES = (PERPLEXITY, Column("mixture", "mixture"), FITTED, Column("proportion", "fitted proportion", 2))
STATISTICS = (Column("length", "mean code length"), Column("codes", "mean codes"), Column("nodes", "non-leaf nodes", 0))
BIAS = (Column("bias", "bias", 3), Column("variance", "variance", 3))
# Table 4.3: label, algorithm, (kind, ε, copies)
TREES = (
    ("T1", "RANDOM", RANDOM),
    ("T2", "BALANCED", ("balanced", 0.0, 1)),
    ("T3", "ADAPTIVE", ("adaptive", 0.0, 1)),
    ("T4", "ADAPTIVE(0.25)", ("adaptive", 0.25, 1)),
    ("T5", "ADAPTIVE(0.4)", ("adaptive", 0.4, 1)),
    ("T6", "ADAPTIVE(0.4) ×2", ("adaptive", 0.4, 2)),
    ("T7", "ADAPTIVE(0.4) ×4", ("adaptive", 0.4, 4)),
)
T2, T7 = TREES[1][2], TREES[6][2]
TREES_OF_SIZE, ROUNDED = ("random", "learned", "reduction"), ("bfloat16", "float32", "loss")  # columns


def kn(order: int, interpolated: bool = True, left_out: tuple[int, int] | None = None) -> Spec:
    """Return a modified Kneser-Ney model."""
    return Spec("kn", config=(("order", order), ("interpolated", interpolated)), left_out=left_out)


def _kn_rows(figures: dict[int, float], blanks: int = 0, interpolated: bool = True) -> list[Row]:
    """Make rows of n-gram models alone; their context size is the second cell, unless there are blanks."""
    name = "Int. KN" if interpolated else "Back-off KN"
    return [
        Row((f"{name}{n}", *([""] * blanks or [str(n - 1)])), ((kn(n, interpolated),),), {"perplexity": figure},
            measures.perplexity)
        for n, figure in figures.items()
    ]  # fmt: skip


def _named(columns: tuple[Column, ...], figures: tuple[float, ...]) -> dict[str, float]:
    return {column.name: figure for column, figure in zip(columns, figures, strict=True)}


def _changed(field: str, value: int, usual: int) -> tuple[tuple[str, int], ...]:
    return () if value == usual else ((field, value),)


def _table_3_2(scale: LanguageScale, seeds: int | None) -> list[Row]:
    rows = []
    for size, published in {5: (117.0, 97.2, 96.9, 0.57), 10: (107.8, 92.2, 91.4, 0.62)}.items():
        lbl = Spec("lbl", config=_changed("context_size", size, 5))
        rows.append(
            Row(
                ("LBL", str(size)),
                seeded(seeds or scale.seeds, lbl, kn(5, False)),
                _named(MIXTURES, published),
                measures.mixed,
            )
        )
    return rows + _kn_rows({3: 129.8, 5: 123.2, 6: 123.5, 9: 124.6}, interpolated=False)


def _table_4_1(scale: LanguageScale, seeds: int | None) -> list[Row]:
    rows = []
    for copies, figure in {1: 151.0, 2: 140.3, 4: 132.8}.items():
        label = ("HLBL", f"RANDOM{f' ×{copies}' if copies > 1 else ''}")
        draws = seeded(seeds or scale.random_trees, Spec("hlbl", tree=("random", 0.0, copies)))
        rows.append(Row(label, draws, {"perplexity": figure}, measures.perplexity))
    rows += _kn_rows({2: 174.2, 3: 125.6, 6: 119.2}, blanks=1)
    return [
        *rows,
        Row(("LBL", ""), seeded(seeds or scale.seeds, Spec("lbl")), {"perplexity": 117.0}, measures.perplexity),
    ]


def _table_4_2(scale: LanguageScale, seeds: int | None) -> list[Row]:
    """Return the rows of all sizes; learned trees are built from the random-tree model with most features."""
    figures = {
        25: (191.6, 162.4, 29.2), 50: (166.4, 141.7, 24.7), 75: (156.4, 134.8, 21.6), 100: (151.2, 131.3, 19.9),
    }  # fmt: skip
    rows = []
    for (theirs, published), size in zip(figures.items(), scale.dimensions, strict=True):
        config = _changed("num_features", size, scale.num_features)
        learned = Spec("hlbl", config=config, tree=T2, tree_of=Spec("hlbl", tree=T2) if config else None)
        draws = seeded(seeds or scale.seeds, Spec("hlbl", config=config, tree=RANDOM), learned)
        label = str(size) if size == theirs else f"{size} (thesis: {theirs})"
        thesis = dict(zip(TREES_OF_SIZE, published, strict=True))
        rows.append(Row((label,), draws, thesis, partial(measures.less, TREES_OF_SIZE)))
    overcomplete = seeded(seeds or scale.seeds, Spec("hlbl", tree=("random", 0.0, 4)))
    label = f"{scale.num_features}, RANDOM ×4"
    return [*rows, Row((label,), overcomplete, {"random": 132.8}, partial(measures.each, ("random",)))]


def _table_4_3(scale: LanguageScale, seeds: int | None) -> list[Row]:
    figures = (
        (14.2, 1.0, 17963), (14.3, 1.0, 17963), (16.1, 1.0, 17963), (24.2, 1.3, 22995), (29.0, 1.7, 30296),
        (69.1, 3.4, 61014), (143.2, 6.8, 121980),
    )  # fmt: skip
    return [
        Row(
            (label, title),
            seeded(seeds or scale.seeds, Spec("hlbl", tree=tree)),
            _named(STATISTICS, published),
            measures.tree_statistics,
        )
        for (label, title, tree), published in zip(TREES, figures, strict=True)
    ]


def _table_4_4(scale: LanguageScale, seeds: int | None) -> list[Row]:
    figures = (
        (151.2, 107.2, 106.0, 0.34), (131.3, 99.9, 99.7, 0.43), (127.0, 98.3, 98.2, 0.45), (124.4, 97.5, 97.4, 0.47),
        (123.3, 97.2, 97.1, 0.47), (115.7, 95.3, 95.3, 0.52), (112.1, 94.4, 94.3, 0.54), (117.0, 94.0, 94.0, 0.50),
    )  # fmt: skip
    models = [(("HLBL", label, title), Spec("hlbl", tree=tree)) for label, title, tree in TREES]
    models.append((("LBL", "", ""), Spec("lbl")))
    rows = [
        Row(label, seeded(seeds or scale.seeds, spec, kn(6)), _named(MIXTURES, published), measures.mixed)
        for (label, spec), published in zip(models, figures, strict=True)
    ]
    return rows + _kn_rows({2: 174.2, 3: 125.6, 6: 119.2}, blanks=2)


def _table_4_5(scale: LanguageScale, seeds: int | None) -> list[Row]:
    models = [(("HLBL", label, title), Spec("hlbl", tree=tree)) for label, title, tree in TREES]
    models.append((("LBL", "", ""), Spec("lbl")))
    draws = [seeded(seeds or 1, spec) for _, spec in models]
    timed = partial(measures.minutes, tuple(spec for of_model in draws for (spec,) in of_model))
    published = (4, 4, 4, 6, 7, 16, 32, 6420)
    return [
        Row(label, of_model, {"minutes": figure}, timed)
        for (label, _), of_model, figure in zip(models, draws, published, strict=True)
    ]


def _table_4_6(scale: LanguageScale, seeds: int | None) -> list[Row]:
    """Return rows of overcomplete trees of four replicas of one subtree, and of four different ones."""
    names = ("adaptive", "random", "noisy")
    models = [Spec("hlbl", tree=(kind, epsilon, 4)) for kind, epsilon in (
        ("adaptive", 0.4), ("random", 0.0), ("noisy-adaptive", 0.4)
    )]  # fmt: skip
    figures = ((112.6, 134.0, 111.8), (112.2, 136.0, 112.7), (112.3, 134.9, 113.1), (112.7, 134.6, 112.1))
    rows = []
    for part, published in enumerate(figures[: scale.subtrees]):
        replicas = seeded(seeds or scale.seeds, *(replace(spec, tree_of=spec, part=part) for spec in models))
        rows.append(
            Row((f"S{part + 1} ×4",), replicas, dict(zip(names, published, strict=True)), partial(measures.each, names))
        )
    thesis = dict(zip(names, (112.1, 133.9, 111.3), strict=True))
    return [*rows, Row(("S1+S2+S3+S4",), seeded(seeds or scale.seeds, *models), thesis, partial(measures.each, names))]


def _table_4_7(scale: LanguageScale, seeds: int | None) -> list[Row]:
    figures = {
        1: (170.5, 115.9, 112.8), 2: (128.7, 103.6, 103.4), 3: (119.4, 98.7, 98.7), 5: (112.1, 94.4, 94.3),
        10: (104.3, 89.6, 89.2), 20: (99.1, 86.3, 85.6),
    }  # fmt: skip
    rows = [
        Row(
            ("HLBL", str(size)),
            seeded(seeds or scale.seeds, _t7(size), kn(6)),
            _named(MIXTURES[:3], figures[size]),
            measures.mixed,
        )
        for size in scale.contexts
    ]
    return rows + _kn_rows({2: 174.2, 3: 125.6, 6: 119.2, 8: 120.2})


def _t7(context_size: int = 5, left_out: tuple[int, int] | None = None) -> Spec:
    """Return the model of T7, or another with its tree."""
    whole = Spec("hlbl", tree=T7)
    if context_size == 5 and left_out is None:
        return whole
    return replace(whole, config=_changed("context_size", context_size, 5), tree_of=whole, left_out=left_out)


def _parts(scale: LanguageScale) -> list[tuple[int, int]]:
    """Return the parts of the text that models of Tables 4.8 and 4.9 are trained without."""
    return [(i, 8) for i in range(scale.subsets)]


def _table_4_8(scale: LanguageScale, seeds: int | None) -> list[Row]:
    hlbl = seeded(seeds or scale.seeds, *(_t7(left_out=part) for part in _parts(scale)))
    ngrams = (tuple(kn(6, left_out=part) for part in _parts(scale)),)
    return [
        Row(("HLBL",), hlbl, _named(BIAS, (4.629, 0.111)), measures.bias_variance),
        Row(("Int. KN6",), ngrams, _named(BIAS, (4.771, 0.042)), measures.bias_variance),
    ]


def _table_4_9(scale: LanguageScale, seeds: int | None) -> list[Row]:
    figures = (
        (115.1, 124.7), (114.6, 123.5), (114.1, 122.8), (113.9, 122.7), (114.0, 122.8), (114.1, 123.2),
        (114.2, 122.5), (114.7, 122.3),
    )  # fmt: skip
    hlbls, ngrams = ([model(left_out=part) for part in _parts(scale)] for model in (_t7, partial(kn, 6)))
    rows = [
        Row(
            (str(i),),
            seeded(seeds or scale.seeds, *pair),
            {"hlbl": ours, "kn": theirs},
            partial(measures.each, ("hlbl", "kn")),
        )
        for i, (pair, (ours, theirs)) in enumerate(zip(zip(hlbls, ngrams, strict=True), figures, strict=False), 1)
    ]
    return [
        *rows,
        Row(
            ("combined",),
            seeded(seeds or scale.seeds, *hlbls, *ngrams),
            {"hlbl": 102.4, "kn": 118.0},
            measures.combined,
        ),
    ]


def _neural_models(scale: LanguageScale, seeds: int | None) -> list[Row]:
    rows = [
        Row((label,), seeded(seeds or scale.seeds, Spec(model), kn(5)), {}, measures.mixed)
        for label, model in (("NPLM", "nplm"), ("LBL", "lbl"))
    ]
    return [*rows, Row(("Int. KN5",), ((kn(5),),), {}, measures.perplexity)]


def _precision(scale: LanguageScale, seeds: int | None) -> list[Row]:
    rows = []
    for label, model, tree in (("LBL", "lbl", None), ("NPLM", "nplm", None), ("HLBL, T1", "hlbl", RANDOM)):
        draws = seeded(seeds or scale.seeds, *(Spec(model, tree=tree, products=kind) for kind in ROUNDED[:2]))
        rows.append(Row((label,), draws, {}, partial(measures.less, ROUNDED)))
    return rows


EM = (
    "The two Gaussians that cut a set of words in two have mixing weights, which EM updates as well: §4.4 names means "
    "and covariances only."
)
_table = partial(Table, LanguageStore)
TABLES = {
    table.name: table
    for table in (
        _table(
            "table-3.2", "3.4.2", "LBL and back-off Kneser-Ney, alone and mixed",
            ("model", "context size"), MIXTURES, _table_3_2,
            "Mixtures are with the back-off KN5. LBL context matrices are full. Back-off models leave out n-grams of "
            "three words or more with a count of one, as SRILM does by default: the thesis names no cut-offs. "
            "Perplexity is that of Eq. 2.2.",
            claims.of_lbl,
        ),
        _table(
            "table-4.1", "4.6.2", "HLBL with random trees", ("model", "tree"), (PERPLEXITY,), _table_4_1,
            "HLBL figures are averages over several random trees.",
            claims.of_random_trees,
        ),
        _table(
            "table-4.2", "4.6.3", "Feature dimensionality, random and learned tree", ("features",),
            (Column("random", "random tree"), Column("learned", "learned tree"), Column("reduction", "reduction")),
            _table_4_2,
            "The learned tree is BALANCED, built once from the random-tree model of most features. The last row is of "
            "Table 4.1: the text compares the two.",
            claims.of_features,
        ),
        _table("table-4.3", "4.6.3", "The trees", ("tree", "algorithm"), STATISTICS, _table_4_3, EM),
        _table(
            "table-4.4", "4.6.3", "HLBL with seven trees, LBL and Kneser-Ney, alone and mixed",
            ("model", "tree", "algorithm"), MIXTURES, _table_4_4,
            "Mixtures are with the interpolated KN6, which has no cut-offs. Seeds are paired: the model of T1 with the "
            f"same seed is the one that the other trees are built from. {EM}",
            claims.of_trees,
        ),
        _table(
            "table-4.5", "4.6.3", "Training time per epoch", ("model", "tree", "algorithm"),
            (Column("minutes", "minutes per epoch", 4), Column("words", "words per second", 0)), _table_4_5,
            "Without validation and compilation: the median of ten rounds, ± their standard deviation. In each, every "
            "model takes steps for a second or more; all rows are timed together whenever this table is made, whatever "
            "`--rows` says.", claims.of_speed, together=True, timed=True,
        ),
        _table(
            "table-4.6", "4.6.4", "Diversity in overcomplete trees", ("tree",),
            (Column("adaptive", "ADAPTIVE(0.4)"), Column("random", "RANDOM"), Column("noisy", "NOISY-ADAPTIVE(0.4)")),
            _table_4_6, "", claims.of_diversity,
        ),
        _table(
            "table-4.7", "4.6.5", "Context size", ("model", "context size"), MIXTURES[:3], _table_4_7,
            "All HLBL have one tree, T7 of the model with a context of 5. Mixtures are with the interpolated KN6.",
            claims.of_context,
        ),
        _table(
            "table-4.8", "4.6.6", "Bias and variance", ("model",), BIAS, _table_4_8,
            "Nats per word, over models each trained without one eighth of the training text. All HLBL have one "
            "tree, T7 of the whole training text: the thesis does not say; so the variance is that of training.",
            claims.of_bias_variance,
        ),
        _table(
            "table-4.9", "4.6.6", "Models trained on parts of the text", ("part left out",),
            (Column("hlbl", "HLBL"), Column("kn", "Int. KN6")), _table_4_9,
            "The models of Table 4.8; the last row averages their predictions.",
            claims.of_subsets,
        ),
        _table(
            "neural-models", "2.2", "The NPLM beside the LBL, alone and mixed with Kneser-Ney", ("model",), MIXTURES,
            _neural_models,
            "Models of 100 features and a context of 5 words at the scales cpu and full; recipes were chosen by the "
            "validation text of the Penn Treebank. Mixtures are with the interpolated KN5.",
            claims.of_neural_models,
        ),
        _table(
            "precision-text", "", "What bfloat16 costs: perplexities", ("model",),
            (Column("bfloat16", "bfloat16"), Column("float32", "float32"), Column("loss", "loss", 2)), _precision,
            "Both are trained with the programs of an accelerator, emulated on a CPU. In the first, "
            "factors of matrix products are rounded to bfloat16, and their sums are not; tests are of full precision.",
        ),
    )
}  # fmt: skip
