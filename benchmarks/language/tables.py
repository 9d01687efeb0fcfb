"""Tables 3.2 and 4.1 to 4.9 of the thesis: their rows, the models behind them, and the thesis' figures."""

from functools import partial
from typing import Any

from benchmarks.core.statistics import falls, paired
from benchmarks.core.table import Column, Row, Table
from benchmarks.language.measures import (
    bias_variance,
    combined,
    each,
    minutes,
    mixed,
    reduction,
    test_perplexity,
    tree_statistics,
)
from benchmarks.language.scales import Scale
from benchmarks.language.store import RANDOM, Spec, TreeSpec
from benchmarks.language.suite import SUITE

PERPLEXITY = Column("perplexity", "perplexity")
MIXTURES = (
    PERPLEXITY,
    Column("mixture", "mixture"),
    Column("fitted", "fitted mixture"),
    Column("proportion", "fitted proportion", 2),
)
# Table 4.3: label, how it is named, (kind, ε, copies)
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


def kn(order: int, interpolated: bool = True, left_out: tuple[int, int] | None = None) -> Spec:
    """A modified Kneser-Ney model."""
    return Spec("kn", config=(("order", order), ("interpolated", interpolated)), left_out=left_out)


def seeded(scale: Scale, seeds: int | None, default: int = 1) -> range:
    """The seeds of a table's rows: as many as asked for, else its default."""
    return range(1, 1 + (default if seeds is None else seeds))


def kn_rows(figures: dict[int, float], interpolated: bool = True, column: int | None = None) -> list[Row]:
    """Rows of n-gram models alone; `column`: how many cells name a row."""
    kind = "Int. KN" if interpolated else "Back-off KN"
    return [
        Row((f"{kind}{n}", *[""] * (column or 0)), ((kn(n, interpolated),),), {"perplexity": figure}, test_perplexity)
        for n, figure in figures.items()
    ]  # fmt: skip


def table_3_2(scale: Scale, seeds: int | None) -> list[Row]:
    """Log-bilinear models with a short and a long context, and their mixtures with a back-off 5-gram."""
    figures = {5: (117.0, 97.2, 96.9, 0.57), 10: (107.8, 92.2, 91.4, 0.62)}
    rows = []
    for size, published in figures.items():
        config = () if size == 5 else (("context_size", size),)
        draws = tuple((Spec("lbl", s, config=config), kn(5, False)) for s in seeded(scale, seeds))
        rows.append(Row(("LBL", str(size)), draws, _named(MIXTURES, published), mixed))
    for n, figure in {3: 129.8, 5: 123.2, 6: 123.5, 9: 124.6}.items():
        label = (f"Back-off KN{n}", str(n - 1))
        rows.append(Row(label, ((kn(n, False),),), {"perplexity": figure}, test_perplexity))
    return rows


def table_4_1(scale: Scale, seeds: int | None) -> list[Row]:
    """Random trees, each figure an average over several of them."""
    rows = []
    for copies, figure in {1: 151.0, 2: 140.3, 4: 132.8}.items():
        label = ("HLBL", f"RANDOM{f' ×{copies}' if copies > 1 else ''}")
        draws = tuple(
            (Spec("hlbl", s, tree=("random", 0.0, copies)),) for s in seeded(scale, seeds, scale.random_trees)
        )
        rows.append(Row(label, draws, {"perplexity": figure}, test_perplexity))
    rows += kn_rows({2: 174.2, 3: 125.6, 6: 119.2}, column=1)
    draws = tuple((Spec("lbl", s),) for s in seeded(scale, seeds))
    return [*rows, Row(("LBL", ""), draws, {"perplexity": 117.0}, test_perplexity)]


def table_4_2(scale: Scale, seeds: int | None) -> list[Row]:
    """Feature dimensionality, with a random tree and with one built from the largest random-tree model."""
    figures = {
        25: (191.6, 162.4, 29.2),
        50: (166.4, 141.7, 24.7),
        75: (156.4, 134.8, 21.6),
        100: (151.2, 131.3, 19.9),
    }
    rows = []
    for (theirs, published), size in zip(figures.items(), scale.dimensions, strict=True):
        config = () if size == scale.num_features else (("num_features", size),)
        draws = tuple(
            (
                Spec("hlbl", s, config=config, tree=RANDOM),
                Spec("hlbl", s, config=config, tree=T2, tree_of=Spec("hlbl", s, tree=T2) if config else None),
            )
            for s in seeded(scale, seeds)
        )
        label = (str(size) if size == theirs else f"{size} (thesis: {theirs})",)
        rows.append(
            Row(
                label,
                draws,
                dict(zip(("random", "learned", "reduction"), published, strict=True)),
                reduction,
            )
        )
    return rows  # fmt: skip


def table_4_3(scale: Scale, seeds: int | None) -> list[Row]:
    """The trees of Table 4.4."""
    figures = (
        (14.2, 1.0, 17963), (14.3, 1.0, 17963), (16.1, 1.0, 17963), (24.2, 1.3, 22995), (29.0, 1.7, 30296),
        (69.1, 3.4, 61014), (143.2, 6.8, 121980),
    )  # fmt: skip
    columns = TABLES["table-4.3"].columns
    return [
        Row((label, title), _trees(tree, seeded(scale, seeds)), _named(columns, published), tree_statistics)
        for (label, title, tree), published in zip(TREES, figures, strict=True)
    ]


def table_4_4(scale: Scale, seeds: int | None) -> list[Row]:
    """The main table: seven trees, the LBL and n-grams, alone and mixed with KN6."""
    figures = (
        (151.2, 107.2, 106.0, 0.34), (131.3, 99.9, 99.7, 0.43), (127.0, 98.3, 98.2, 0.45), (124.4, 97.5, 97.4, 0.47),
        (123.3, 97.2, 97.1, 0.47), (115.7, 95.3, 95.3, 0.52), (112.1, 94.4, 94.3, 0.54),
    )  # fmt: skip
    chosen = seeded(scale, seeds, scale.seeds)
    rows = [
        Row(
            ("HLBL", label, title), tuple((*specs, kn(6)) for specs in _trees(tree, chosen)),
            _named(MIXTURES, published), mixed,
        )
        for (label, title, tree), published in zip(TREES, figures, strict=True)
    ]  # fmt: skip
    draws = tuple((Spec("lbl", s), kn(6)) for s in chosen)
    rows.append(Row(("LBL", "", ""), draws, _named(MIXTURES, (117.0, 94.0, 94.0, 0.50)), mixed))
    return rows + kn_rows({2: 174.2, 3: 125.6, 6: 119.2}, column=2)


def table_4_5(scale: Scale, seeds: int | None) -> list[Row]:
    """Minutes per epoch."""
    chosen = seeded(scale, seeds)
    rows = [
        Row(("HLBL", label, title), _trees(tree, chosen), {"minutes": published}, minutes)
        for (label, title, tree), published in zip(TREES, (4, 4, 4, 6, 7, 16, 32), strict=True)
    ]
    draws = tuple((Spec("lbl", s),) for s in chosen)
    return [*rows, Row(("LBL", "", ""), draws, {"minutes": 6420}, minutes)]


def table_4_6(scale: Scale, seeds: int | None) -> list[Row]:
    """Overcomplete trees of four replicas of one subtree, and of four different ones."""
    algorithms = {
        "adaptive": ("adaptive", 0.4, 4),
        "random": ("random", 0.0, 4),
        "noisy": ("noisy-adaptive", 0.4, 4),
    }
    figures = ((112.6, 134.0, 111.8), (112.2, 136.0, 112.7), (112.3, 134.9, 113.1), (112.7, 134.6, 112.1))
    measure = partial(each, tuple(algorithms))
    rows = []
    for part, published in enumerate(figures[: scale.subtrees]):
        draws = tuple(
            tuple(
                Spec("hlbl", s, tree=tree, tree_of=Spec("hlbl", s, tree=tree), part=part)
                for tree in algorithms.values()
            )
            for s in seeded(scale, seeds)
        )
        rows.append(Row((f"S{part + 1} ×4",), draws, dict(zip(algorithms, published, strict=True)), measure))
    draws = tuple(tuple(Spec("hlbl", s, tree=tree) for tree in algorithms.values()) for s in seeded(scale, seeds))
    last = dict(zip(algorithms, (112.1, 133.9, 111.3), strict=True))
    return [*rows, Row(("S1+S2+S3+S4",), draws, last, measure)]  # fmt: skip


def table_4_7(scale: Scale, seeds: int | None) -> list[Row]:
    """Context size, one tree for all: T7."""
    figures = {
        1: (170.5, 115.9, 112.8), 2: (128.7, 103.6, 103.4), 3: (119.4, 98.7, 98.7), 5: (112.1, 94.4, 94.3),
        10: (104.3, 89.6, 89.2), 20: (99.1, 86.3, 85.6),
    }  # fmt: skip
    rows = []
    for size in scale.contexts:
        draws = tuple((_t7(s, size), kn(6)) for s in seeded(scale, seeds))
        rows.append(Row(("HLBL", str(size)), draws, _named(MIXTURES[:3], figures[size]), mixed))
    for n, figure in {2: 174.2, 3: 125.6, 6: 119.2, 8: 120.2}.items():
        rows.append(Row((f"Int. KN{n}", str(n - 1)), ((kn(n),),), {"perplexity": figure}, test_perplexity))
    return rows


def _t7(seed: int, context_size: int = 5, left_out: tuple[int, int] | None = None) -> Spec:
    """The model of T7, or another with its tree."""
    whole = Spec("hlbl", seed, tree=T7)
    if context_size == 5 and left_out is None:
        return whole
    config = () if context_size == 5 else (("context_size", context_size),)
    return Spec("hlbl", seed, config=config, tree=T7, tree_of=whole, left_out=left_out)


def monotone(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Whether the perplexity of the HLBL falls from each context size to the next."""
    values = [row["cells"]["perplexity"]["mean"] for row in rows if row["label"][0] == "HLBL"]
    return {"does the HLBL's perplexity fall monotonically in the context size": falls(values)}


def table_4_8(scale: Scale, seeds: int | None) -> list[Row]:
    """Bias and variance over models trained without one part of the text each."""
    measured = {"HLBL": (4.629, 0.111), "Int. KN6": (4.771, 0.042)}
    columns = TABLES["table-4.8"].columns
    hlbl = tuple(tuple(_t7(s, left_out=part) for part in _parts(scale)) for s in seeded(scale, seeds))
    ngrams = (tuple(kn(6, left_out=part) for part in _parts(scale)),)
    return [
        Row((label,), draws, _named(columns, measured[label]), bias_variance)
        for label, draws in (("HLBL", hlbl), ("Int. KN6", ngrams))
    ]


def table_4_9(scale: Scale, seeds: int | None) -> list[Row]:
    """The perplexities of those models, and of their average predictions."""
    figures = (
        (115.1, 124.7), (114.6, 123.5), (114.1, 122.8), (113.9, 122.7), (114.0, 122.8), (114.1, 123.2),
        (114.2, 122.5), (114.7, 122.3),
    )  # fmt: skip
    names = ("hlbl", "kn")
    rows = []
    for (i, part), published in zip(enumerate(_parts(scale)), figures, strict=False):
        draws = tuple((_t7(s, left_out=part), kn(6, left_out=part)) for s in seeded(scale, seeds))
        thesis = dict(zip(names, published, strict=True))
        rows.append(Row((str(i + 1),), draws, thesis, partial(each, names)))
    parts = _parts(scale)
    ngrams = tuple(kn(6, left_out=part) for part in parts)
    both = tuple((*(_t7(s, left_out=part) for part in parts), *ngrams) for s in seeded(scale, seeds))
    return [*rows, Row(("combined",), both, {"hlbl": 102.4, "kn": 118.0}, combined)]


def _parts(scale: Scale) -> list[tuple[int, int]]:
    return [(i, 8) for i in range(scale.subsets)]


def _trees(tree: TreeSpec, seeds: range) -> tuple[tuple[Spec, ...], ...]:
    return tuple((Spec("hlbl", s, tree=tree),) for s in seeds)


def _named(columns: tuple[Column, ...], figures: tuple[float, ...]) -> dict[str, float]:
    return {column.name: figure for column, figure in zip(columns, figures, strict=True)}


def _order(rows: list[dict[str, Any]]) -> dict[str, Any]:
    trees = [row for row in rows if row["label"][0] == "HLBL"]
    values = [row["cells"]["perplexity"]["mean"] for row in trees]
    question = "does perplexity fall from each tree to the next, T1 to T7, as in the thesis"
    answers: dict[str, Any] = {question: falls(values)}
    if len(trees[0]["seeds"]) > 1:
        unresolved, reverse = paired(trees, "perplexity")
        answers |= {
            "pairs of trees closer than two standard errors of their paired difference": unresolved,
            "other pairs of trees, in the reverse of the thesis' order": reverse,
        }
    return answers


def _speed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    *trees, flat = (row["cells"]["minutes"]["mean"] for row in rows)
    return {"how many epochs of the slowest HLBL fit into one of the LBL (thesis: 200)": f"{flat / max(trees):.1f}"}


_table = partial(Table, SUITE)
TABLES = {
    table.name: table
    for table in (
        _table(
            "table-3.2", "3.4.2", "LBL and back-off Kneser-Ney, alone and mixed",
            ("model", "context size"), MIXTURES, table_3_2,
            "Mixtures are with the back-off KN5. LBL context matrices are full.",
        ),
        _table(
            "table-4.1", "4.6.2", "HLBL with random trees", ("model", "tree"), (PERPLEXITY,), table_4_1,
            "HLBL figures are averages over several random trees, ± their standard deviation.",
        ),
        _table(
            "table-4.2", "4.6.3", "Feature dimensionality, random and learned tree", ("features",),
            (Column("random", "random tree"), Column("learned", "learned tree"), Column("reduction", "reduction")),
            table_4_2,
            "The learned tree is BALANCED, built once from the random-tree model of most features.",
        ),
        _table(
            "table-4.3", "4.6.3", "The trees", ("tree", "algorithm"),
            (Column("length", "mean code length"), Column("codes", "mean codes"), Column("nodes", "non-leaf nodes", 0)),
            table_4_3,
        ),
        _table(
            "table-4.4", "4.6.3", "HLBL with seven trees, LBL and Kneser-Ney, alone and mixed",
            ("model", "tree", "algorithm"), MIXTURES, table_4_4,
            "Mixtures are with the interpolated KN6. ± is the standard deviation over paired seeds: the model of T1 "
            "with the same seed is the one that the other trees are built from.", _order,
        ),
        _table(
            "table-4.5", "4.6.3", "Training time per epoch", ("model", "tree", "algorithm"),
            (Column("minutes", "minutes per epoch", 4), Column("words", "words per second", 0)), table_4_5,
            "Without validation and compilation: the median of five rounds of 50 steps, as this table is made.", _speed,
        ),
        _table(
            "table-4.6", "4.6.4", "Diversity in overcomplete trees", ("tree",),
            (Column("adaptive", "ADAPTIVE(0.4)"), Column("random", "RANDOM"), Column("noisy", "NOISY-ADAPTIVE(0.4)")),
            table_4_6,
        ),
        _table(
            "table-4.7", "4.6.5", "Context size", ("model", "context size"), MIXTURES[:3], table_4_7,
            "All HLBL have one tree, T7 of the model with a context of 5. Mixtures are with the interpolated KN6.",
            monotone,
        ),
        _table(
            "table-4.8", "4.6.6", "Bias and variance", ("model",),
            (Column("bias", "bias", 3), Column("variance", "variance", 3)), table_4_8,
            "Nats per word, over models each trained without one eighth of the training text. All HLBL have one "
            "tree, T7 of the whole training text: the thesis does not say; so the variance is that of training.",
        ),
        _table(
            "table-4.9", "4.6.6", "Models trained on parts of the text", ("part left out",),
            (Column("hlbl", "HLBL"), Column("kn", "Int. KN6")), table_4_9,
            "The models of Table 4.8; the last row averages their predictions.",
        ),
    )
}  # fmt: skip
