"""Figure 8 of Lauly et al. (2017): perplexity by the number of orders of the words, over which p(v) is averaged."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.core import figure
from benchmarks.core.comparisons import relative
from benchmarks.core.table import Column, Measured, Row, Table, seeded
from benchmarks.core.verdict import ABOVE, NOT_CLAIMED, Claim, Comparison
from benchmarks.documents.scales import NEWSGROUPS, DocumentScale
from benchmarks.documents.store import OF_SOME, SOME, DocumentStore, of_documents, per_word, some
from benchmarks.documents.tables import PUBLISHED
from benchmarks.language.claims import TextModels, percent
from benchmarks.language.store import Spec

ORDERINGS = (1, 2, 4, 16, 32, 64, 128, OF_SOME)
FEW, MANY = 16, 128  # orders: most of the gain comes up to FEW, hardly any beyond MANY
MINIMAL = 0.01  # share of a perplexity that the publication calls a minimal impact
DOCNADE, *DEEP = PUBLISHED[2:]  # the models that predict words in an order


def rows(scale: DocumentScale, seeds: int | None) -> list[Row]:
    """Return the rows: DocNADE, and DeepDocNADE, which the published figure shows."""
    figures = {name: {str(OF_SOME): figure} for name, _, figure in DEEP}
    return [
        Row((name,), seeded(seeds or scale.seeds, spec), figures.get(name, {}), measure)
        for name, spec, _ in (DOCNADE, *DEEP)
    ]


def measure(store: DocumentStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Measure the perplexity of SOME documents, averaged over the first orders of their words, by number (Eq. 31)."""
    (spec,) = specs
    model, chosen, most = store.model(spec), some(getattr(store.data, part).with_words()), store.orders_of_some
    known = {most: store.predictions(spec, "some")} if part == "test" else {}
    return {
        str(number): of_documents(-(known[number] if number in known else per_word(model, chosen, number)))
        for number in ORDERINGS
        if number <= most
    }


def claims(store: DocumentStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the publication's claim about the number of orders, and ours that the first ones matter most."""
    models = TextModels(store, rows, part)
    shown = [number for number in ORDERINGS if number <= store.orders_of_some]
    most = shown[-1]

    def compare(*numbers: int, **options: Any) -> list[Comparison]:
        orders = " and ".join(map(str, numbers))
        return [
            models.compare(f"{name}, {orders} orders", [(name, str(number)) for number in numbers], **options)
            for name in models.rows
        ]

    def less_than_first(all_: Any, first: Any, one: Any) -> Any:
        return (one - first) - (first - all_)

    first = Claim(
        f"Lauly et al. 2017, {NOT_CLAIMED}",
        f"the first {FEW} orders lower the perplexity by more than all further ones together",
        compare(most, FEW, 1, claimed=ABOVE, quantity=less_than_first) if most > FEW else [],
    )
    further = Claim(
        "Lauly et al. 2017",
        f"beyond {MANY} orders the perplexity hardly changes (by less than {percent(MINIMAL)})",
        compare(most, MANY, claimed=(-MINIMAL, MINIMAL), quantity=relative) if most > MANY else [],
    )
    return [first, *([further] if store.name == NEWSGROUPS else [])]


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw Figure 8: perplexity by the number of orders, a line for each model."""
    title = f"Figure 8 of Lauly et al. (2017): {result['title']}\n({result['data']['name']}, scale {result['scale']})"
    with figure.panels(path, title, ncols=1, squeeze=False, figsize=(7, 5)) as ((ax,),):
        shown: list[int] = []
        for row, style in zip(result["rows"], figure.styles(len(result["rows"])), strict=True):
            shown = [number for number in ORDERINGS if str(number) in row["cells"]]
            ax.plot(shown, [row["cells"][str(n)]["mean"] for n in shown], style, markersize=4, label=row["label"][0])
        ax.set_xscale("log", base=2)
        ax.set_xticks(shown, map(str, shown))
        ax.set(xlabel="orders of the words of each document", ylabel=f"perplexity of {SOME} test documents")
        ax.legend(fontsize=9)


TABLE = Table(
    DocumentStore, "docnade-figure-8", "", "Perplexity by the number of orders of the words", ("model",),
    tuple(Column(str(number), f"{number} order{'s'[: number > 1]}") for number in ORDERINGS), rows,
    f"Of {SOME} test documents, the same as in docnade-table-1, whose probabilities are averaged over the first orders "
    f"that are drawn of their words (Eq. 31). The published figure is of DeepDocNADE; those of {OF_SOME} orders are "
    "from the publication's Table 1. Ours are equal to those of docnade-table-1 where both tables are of the same "
    "trained models; of models that were trained at different commits they may differ by several points. On average "
    "over the orders that are drawn more of them can only lower the perplexity, since the logarithm is concave: what "
    "is judged is by how much. Intervals are wide because documents differ much, and narrower of the comparisons, "
    "which are of the same documents.",
    claims, draw, published="Lauly et al. 2017 (20 Newsgroups, first 50 test documents)",
    published_data=NEWSGROUPS, kept=True,
)  # fmt: skip
