"""Table 4 of Lauly et al. (2017): the DocNADE language model, and models that do not use documents."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from benchmarks.core.table import Row, Table, seeded
from benchmarks.core.verdict import Claim
from benchmarks.language import measures
from benchmarks.language.claims import TextModels
from benchmarks.language.scales import MANY_WORDS, LanguageScale
from benchmarks.language.slides import MINUTES, TIMES, neural_models
from benchmarks.language.store import LanguageStore, Spec
from benchmarks.language.tables import PERPLEXITY, T7, kn

DOCNADE, ALONE = "DocNADE-LM", "LM"
GROUPS = {1: 111.93, 2: 110.9, 3: 109.8, 4: 109.78, 5: 109.22}  # sentences of a document: published perplexity
LINES = 50  # of a minibatch: about 1,000 words of the Penn Treebank
FIXED = ("rate.W", 0.0)  # at zero: documents have no effect


def of_lines(lines: int, *recipe: Any) -> Spec:
    """Return the model with documents of `lines` lines; minibatches have about LINES lines for all."""
    batch_size = ("batch_size", round(LINES / lines))
    return Spec("docnade-lm", config=(("group_lines", lines),), recipe=(batch_size, *recipe))


def rows(scale: LanguageScale, seeds: int | None) -> list[Row]:
    """Return the rows of Table 4, and of the n-gram network on the longest documents."""
    networks = neural_models(scale)
    models: dict[tuple[str, str], tuple[Spec, float | None]] = {
        ("KN6", ""): (kn(6, False), 123.5),
        ("LBL", ""): (networks["LBL"], 117.0),
        ("HLBL", ""): (Spec("hlbl", tree=T7), 112.1),
        ("LSTM", ""): (networks["LSTM"], 116.26),
        ("GRU", ""): (networks["GRU"], 109.42),
        (ALONE, "1"): (of_lines(1, FIXED), 119.78),
        (ALONE, "5"): (of_lines(5, FIXED), None),
        **{(DOCNADE, str(lines)): (of_lines(lines), figure) for lines, figure in GROUPS.items()},
    }
    return [
        Row(label, seeded(1 if spec.counted else seeds or scale.seeds, spec),
            {} if figure is None else {"perplexity": figure}, measures.perplexity_and_minutes)
        for label, (spec, figure) in models.items()
    ]  # fmt: skip


def claims(store: LanguageStore, rows: Sequence[Row], part: str) -> list[Claim]:
    """Return the published claims about Table 4."""
    models = TextModels(store, rows, part)
    claim = partial(Claim, "Lauly et al. 2017")
    ours = models.names(DOCNADE)
    first, last = ours[0], ours[-1]
    return [
        claim("DocNADE-LM is better than its n-gram network alone, with one grouped sentence and with five",
              [models.pair(f"{DOCNADE} {lines}", f"{ALONE} {lines}") for lines in (1, 5)]),
        claim("DocNADE-LM is better with five grouped sentences than with one", [models.pair(last, first)]),
        claim("DocNADE-LM's perplexity falls with each further sentence", models.falling(ours)),
        claim("DocNADE-LM with five is better than the LBL, the HLBL, the LSTM and the GRU",
              models.all_pairs([last], ["LBL", "HLBL", "LSTM", "GRU"])),
    ]  # fmt: skip


NOTE = (
    "A document is a group of consecutive lines. LM is DocNADE-LM with the vectors of documents fixed at zero, which "
    "is the NPLM; minibatches of both are whole documents, about 50 lines. Lines of the Penn Treebank are sentences, "
    "those of WikiText-2 also paragraphs, headings and blank lines, of which 50 have more than twice the words. "
    "Contexts of n-grams, and the state of recurrent networks, run on across line ends and groups. At the scales cpu "
    "and full, LM and DocNADE-LM have 100 features, 200 hidden units and a context of 5 words, the LBL and the HLBL "
    "(T7 of Table 4.4) 100 features, the LSTM and the GRU 300 units; all published models have 100 of either. By the "
    "recipe `tuned`, these are trained by importance sampling, with 1,000 words drawn as noise for each minibatch, "
    "which is several times as fast: LM, DocNADE-LM, the LSTM and the GRU, and where the vocabulary has more than "
    f"{MANY_WORDS:,} words the LBL. All but the HLBL are evaluated by the softmax over all words; the published LM and "
    "DocNADE-LM have a hierarchical softmax of two levels (`jaxlm train docnade-lm --objective classes`). "
    f"{TIMES}"
)
TABLES = {
    table.name: table
    for table in (
        Table(
            LanguageStore, "docnade-table-4", "", "Language models of words and of documents",
            ("model", "grouped sentences"), (PERPLEXITY, MINUTES), rows, NOTE, claims,
            published="Lauly et al. 2017 (AP News)", kept=True,
        ),
    )
}  # fmt: skip
