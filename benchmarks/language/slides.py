"""Tables of slides on the thesis' subject: Penn Treebank models, and noise-contrastive estimation.

Mirowski 2014 shows perplexities of Mikolov et al. 2011, and those of Mnih and Teh 2012. Claims named targets are ours.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from benchmarks.core.comparisons import relative
from benchmarks.core.table import Column, Measured, Row, Table, seeded
from benchmarks.core.verdict import TARGET, Claim, Comparison
from benchmarks.language import measures
from benchmarks.language.claims import TextModels, percent
from benchmarks.language.scales import MANY_WORDS, LanguageScale
from benchmarks.language.store import LanguageStore, Spec
from benchmarks.language.tables import FITTED, MIXTURES, PERPLEXITY, kn
from jaxlm.tasks import mixture

PTB = "ptb"
MINUTES = Column("minutes", "minutes of training", first=True)
KN5, ALL = "KN5", "all of them"
# claim on the test, row, column, and the highest value of that column
TARGETS = (
    ("the feed-forward network has a perplexity of at most 125", "NPLM", "perplexity", 125.0),
    ("the recurrent network has a perplexity of at most 118", "RNN", "perplexity", 118.0),
    ("the recurrent network's mixture with KN5 has a perplexity of at most 100", "RNN", "fitted", 100.0),
    ("the LSTM has a perplexity of at most 88", "LSTM", "perplexity", 88.0),
    ("the GRU has a perplexity of at most 88", "GRU", "perplexity", 88.0),
)
# shares of perplexity by which other objectives may be worse than maximum likelihood
NCE_LOSS, CLASSES_LOSS = 0.01, 0.02
# configuration of an RNN
FEW_UNITS = (
    ("objective", "classes"), ("tied", False), ("dropout", 0.2), ("feature_dropout", 0.1), ("word_dropout", 0.0),
)  # fmt: skip
# of models whose recipe has the softmax over all words; decays of the NPLM and the LBL were chosen on WikiText-2's
# validation text, and the NLBL has the LBL's
SAMPLED = (("objective", "importance"), ("num_noise", 1000), ("shared_noise", True))
DECAYS = {"nplm": (("decay.R,U", 0.03), ("decay.H", 0.02)), "lbl": (("decay.R", 0.05),), "nlbl": (("decay.R", 0.05),)}
ML, CLASSES, IMPORTANCE = "maximum likelihood", "classes", "importance sampling"


def neural_models(scale: LanguageScale) -> dict[str, Spec]:
    """Return the neural models by name; recurrent ones have 3 or 4 times as many units as others have features.

    By the recipe "tuned", recurrent ones are trained by importance sampling, and with many words so are all.
    """
    units = {"rnn": 4, "lstm": 3, "gru": 3}
    return {
        name.upper(): Spec(
            name,
            config=tuple((field, times * scale.num_features) for field in ("num_features", "num_hidden") if times),
            of_many_words=() if times else (*SAMPLED, *DECAYS[name]),
        )
        for name, times in ((name, units.get(name, 0)) for name in ("nplm", "lbl", "nlbl", "rnn", "lstm", "gru"))
    }


def _all_models(scale: LanguageScale) -> dict[str, Spec]:
    """Return the models that are mixed with KN5, by name."""
    return {"class 5-gram": Spec("class-ngram", config=(("order", 5),)), "cache": Spec("cache"), **neural_models(scale)}


def _ptb(scale: LanguageScale, seeds: int | None) -> list[Row]:
    published = {
        "NPLM": {"perplexity": 141.0, "fitted": 118.0},
        "NLBL": {"perplexity": 104.4},
        "RNN": {"perplexity": 123.0, "fitted": 106.0},
        "LSTM": {"perplexity": 114.5},
    }
    return [
        Row((KN5,), ((kn(5),),), {"perplexity": 141.0}, measures.perplexity_and_minutes),
        *(Row((name,), draws, published.get(name, {}), _mixed) for name, draws in _with_kn5(scale, seeds).items()),
    ]


def _mixture(scale: LanguageScale, seeds: int | None) -> list[Row]:
    """Return the rows of mixtures: of each model with KN5, and of all models."""
    every = seeded(seeds or scale.seeds, *_all_models(scale).values(), kn(5))
    return [Row((name,), draws, {}, _fitted) for name, draws in {**_with_kn5(scale, seeds), ALL: every}.items()]


def _with_kn5(scale: LanguageScale, seeds: int | None) -> dict[str, tuple[tuple[Spec, ...], ...]]:
    """Return each model with KN5, once or with each seed."""
    return {
        name: seeded(1 if spec.counted else seeds or scale.seeds, spec, kn(5))
        for name, spec in _all_models(scale).items()
    }


def _mixed(store: LanguageStore, specs: tuple[Spec, ...], part: str) -> Measured:
    return {**measures.mixed(store, specs, part), "minutes": measures.training_minutes(store, specs[0])}


def _fitted(store: LanguageStore, specs: tuple[Spec, ...], part: str) -> Measured:
    """Measure the mixture of models, with the proportions that fit validation best."""
    mixed = mixture.mix_all([store.get(spec).predictions(part) for spec in specs], store.proportions(*specs))
    return {"fitted": store.by_blocks(-mixed, part, seeded=True)}


def _ptb_claims(store: LanguageStore, rows: Sequence[Row], part: str) -> list[Claim]:
    models = TextModels(store, rows, part)
    networks = [name for name, row in models.rows.items() if models.neural(row)]
    claim = partial(Claim, "Mirowski 2014")
    mixed = [
        models.compare(f"mixture of {name}, and {alone}", ((name, "fitted"), (alone, "perplexity")))
        for name in networks for alone in (name, KN5)
    ]  # fmt: skip
    return [
        claim("the feed-forward network is on par with KN5 (within 3 %)",
              [models.pair("NPLM", KN5, claimed=(-0.03, 0.03), quantity=relative)]),
        claim("the recurrent network is better than the feed-forward network", [models.pair("RNN", "NPLM")]),
        claim("the mixture of each network with KN5 is better than both", mixed),
        claim("the recurrent network's mixture with KN5 is better than the feed-forward network's",
              [models.pair("RNN", "NPLM", "fitted")]),
        Claim(TARGET, "the nonlinear LBL is better than the LBL of the same size", [models.pair("NLBL", "LBL")]),
        *(
            Claim(TARGET, text, [models.compare("", [(name, column)], (-np.inf, most), np.positive)])
            for text, name, column, most in TARGETS if store.name == PTB
        ),
    ]  # fmt: skip


def _mixture_claims(store: LanguageStore, rows: Sequence[Row], part: str) -> list[Claim]:
    models = TextModels(store, rows, part)
    draws = range(len(models.rows[ALL].draws))  # also beside models without a seed

    def better_than(name: str) -> Comparison:
        scores = [[models.scores(each, "fitted", draw) for each in (ALL, name)] for draw in draws]
        return Comparison(f"{ALL}, and {name}", scores)

    together = [better_than(name) for name in models.rows if name != ALL]
    return [Claim(TARGET, "the mixture of all models is better than that of each with KN5", together)]


def _nce_specs(scale: LanguageScale) -> dict[tuple[str, str], tuple[Spec, dict[str, float]]]:
    """Return the rows' labels, models, and published figures: perplexity, and minutes of training."""

    def lbl(**config: object) -> Spec:
        return Spec("lbl", config=(("context_size", 2), *config.items()))

    figures = {1: 192.5, 5: 172.6, 25: 163.1, 100: 159.1}
    size = tuple((field, scale.num_features) for field in ("num_features", "num_hidden"))
    return {
        (ML, ""): (lbl(), {"perplexity": 163.5, "minutes": 21 * 60.0}),
        **{
            ("NCE", f"{k}, unigram"): (
                lbl(objective="nce", num_noise=k), {"perplexity": figure, "minutes": 90.0}
            ) for k, figure in figures.items()
        },
        **{("NCE", f"{k}, uniform"): (lbl(objective="nce", num_noise=k, noise_power=0.0), {}) for k in (25, 100)},
        (CLASSES, ""): (lbl(objective="classes"), {}),
        **{(IMPORTANCE, f"{k}, unigram"): (lbl(objective="importance", num_noise=k), {}) for k in (25, 100)},
        ("RNN, 50 classes", ""): (
            Spec("rnn", config=(*size, *FEW_UNITS, ("num_classes", min(50, 5 * scale.num_features)))),
            {"perplexity": 145.4, "minutes": 30.0},
        ),
    }  # fmt: skip


def _nce(scale: LanguageScale, seeds: int | None) -> list[Row]:
    return [
        Row(label, seeded(seeds or scale.seeds, spec), published, measures.perplexity_and_minutes)
        for label, (spec, published) in _nce_specs(scale).items()
    ]


def _nce_claims(store: LanguageStore, rows: Sequence[Row], part: str) -> list[Claim]:
    models = TextModels(store, rows, part)
    claim = partial(Claim, "Mnih and Teh 2012")
    unigram = [f"NCE {k}, unigram" for k in (1, 5, 25, 100)]

    def at_most(name: str, share: float) -> list[Comparison]:
        return [models.pair(name, ML, claimed=(-np.inf, share), quantity=relative)]

    return [
        claim("perplexity falls with the number of noise words, from 1 to 5, 25 and 100", models.falling(unigram)),
        claim(f"NCE with 25 noise words is at most {percent(NCE_LOSS)} worse than maximum likelihood",
              at_most(unigram[2], NCE_LOSS)),
        claim("noise by the words' frequencies is better than uniform noise, with 25 and 100 words", [
            models.pair(f"NCE {k}, unigram", f"NCE {k}, uniform") for k in (25, 100)
        ]),
        claim("NCE is better than importance sampling with as many words, 25 and 100", [
            models.pair(f"NCE {k}, unigram", f"{IMPORTANCE} {k}, unigram") for k in (25, 100)
        ]),
        Claim(TARGET, f"classes are at most {percent(CLASSES_LOSS)} worse than the softmax over all words",
              at_most(CLASSES, CLASSES_LOSS)),
        *(
            Claim(TARGET, f"{ML} has a perplexity of at most 158",
                  [models.compare("", [(ML, "perplexity")], (-np.inf, 158.0), np.positive)])
            for _ in range(store.name == PTB)
        ),
    ]  # fmt: skip


TIMES = (
    "Minutes are epochs by their median time, without validation and compilation, on whatever else the machine did; of "
    "counted models, all of their estimation."
)
_table = partial(Table, LanguageStore)
TABLES = {
    table.name: table
    for table in (
        _table(
            "slides-ptb", "", "Neural models and n-grams, alone and mixed with KN5", ("model",), (*MIXTURES, MINUTES),
            _ptb,
            "Mixtures are with the interpolated KN5. At the scales cpu and full, the NPLM, LBL and NLBL have 100 "
            "features and a context of 5 words, the RNN 400 units, the LSTM and GRU 300; the NLBL adds its hidden "
            "layer to the linear prediction of the LBL. By the recipe `tuned`, recurrent networks are trained by "
            f"importance sampling, and the others where the vocabulary has more than {MANY_WORDS:,} words, else by the "
            "softmax over all words, by which all are evaluated. Where published figures are shown, that of the NLBL "
            "is of another table of the slides, in which KN5 has 123.3, and those of mixtures are of proportions that "
            f"the slides do not state; they do not say which epochs were chosen by what. {TIMES}",
            _ptb_claims, published="Mirowski 2014 (Penn Treebank; LSTM of 2 × 200 units: Zaremba et al. 2014)",
            published_data=PTB, kept=True,
        ),
        _table(
            "slides-mixture", "", "Neural models and n-grams, each mixed with KN5, and the mixture of all",
            ("model",), (FITTED,), _mixture,
            "Models are those of `slides-ptb`; the proportions of all mixtures fit the validation text best.",
            _mixture_claims,
        ),
        _table(
            "slides-nce", "", "LBL with a context of 2 words by maximum likelihood and by noise-contrastive estimation",
            ("objective", "noise"), (PERPLEXITY, MINUTES), _nce,
            "Perplexities are exactly normalised, whatever the objective. All objectives of the LBL have the recipe "
            "of maximum likelihood. Where published times are shown, hours of another machine, they are in minutes. "
            f"{TIMES}",
            _nce_claims, published="Mnih and Teh 2012, as in Mirowski 2014 (Penn Treebank)", published_data=PTB,
            kept=True,
        ),
    )
}  # fmt: skip
