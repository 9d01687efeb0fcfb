"""Training time of a model of documents to the held-out perplexity of LDA, beside LDA in other packages.

Passes over the documents are chosen by validation documents: the fewest of PASSES with which a program comes within
MARGIN of the lowest perplexity that LDA reaches with any of them. Then trainings with this number of passes are timed
in turn, each round with another seed, and evaluated on test documents. The time of a training that does not reach the
perplexity on validation documents is infinite. Each program has one order of the words of a document, and LDA's
probabilities are estimated by the same particle filter, whichever package fitted the topics.
"""

import dataclasses
from collections.abc import Callable
from time import perf_counter
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import numpy as np

from benchmarks.core.statistics import quartiles
from benchmarks.core.timing import in_turn, pass_seconds
from benchmarks.documents.scales import speed_documents
from benchmarks.language.store import trainer
from benchmarks.speed.peers import lda as peers_lda
from benchmarks.speed.peers import missing
from benchmarks.speed.throughput import Figures
from jaxfit import fit, state
from jaxfit.devices.cores import cores
from jaxlm import models as registry
from jaxlm.contract import structure_argument
from jaxlm.data.documents.collection import DocumentCorpus, Documents
from jaxlm.models import lda

CASES = ("docnade",)
OURS, TITLE = "jaxlm", "training to the perplexity of LDA"
TOPICS, PASSES, ROUNDS = 50, (1, 2, 5, 10, 20), 5  # topics, or hidden units
MARGIN = 1.01  # times the lowest perplexity of LDA
MOST = 1000  # documents, at most, that a perplexity is of


class Timed(NamedTuple):
    """A training of a round: its seconds, the perplexity of test documents, and whether the target was reached."""

    seconds: float
    perplexity: float
    reached: bool = True


class Trained(NamedTuple):
    """Seconds of training, and the perplexity of documents."""

    seconds: float
    perplexity: Callable[[Documents], float]


Train = Callable[[int, int], Trained]  # passes, seed -> a training


def our_training(name: str, corpus: DocumentCorpus, size: int) -> Train:
    """Return a function that trains our model by its recipe for a number of passes.

    Its seconds leave out compilation. They include the preparation of documents, which the peers' leave out.
    """
    record = registry.get(name)
    recipe, options = record.recipes["tuned"]
    options = {**options, registry.vector_size(name): size}
    structure: Any = record.structure_of(options)
    made = None
    if structure is not None:
        made = structure.stand_in(structure.choose(options, {}), len(corpus.vocabulary), corpus.word_counts())

    def train(passes: int, seed: int) -> Trained:
        given = dataclasses.replace(recipe, epochs=passes)
        begin = perf_counter()
        training = trainer(name, corpus, given, options, made, seed)
        prepared = perf_counter() - begin
        seconds = prepared + sum(pass_seconds(training, number)[0] for number in range(passes))
        training.state, params = state.between_epochs(training.state)
        program, fitting = training.program, record.fitting

        def perplexity(documents: Documents) -> float:
            data = fitting.texts(program.config, 0, *structure_argument(made))(documents)  # type: ignore[union-attr]
            return float(np.exp(np.mean(fit.scores(program, params, data), dtype=np.float64)))

        return Trained(seconds - training.compile_seconds, perplexity)

    return train


def their_training(label: str, corpus: DocumentCorpus, size: int) -> Train:
    """Return a function that fits LDA by another package, with the priors of our recipe."""
    _, options = registry.get("lda").recipes["tuned"]
    config = lda.Config(**{"num_words": len(corpus.vocabulary), "num_topics": size, **options})
    counts = corpus.train.with_words().counts

    def train(passes: int, seed: int) -> Trained:
        found = peers_lda.fit_aside(label, peers_lda.Problem(counts, size, *config.priors(), passes, seed))
        model = SimpleNamespace(params=lda.Params(found.beta), config=config)

        def perplexity(documents: Documents) -> float:
            log_p = lda.of_order(model, documents, jax.random.key(0))
            return float(np.exp(np.mean(-log_p / documents.lengths)))

        return Trained(found.seconds, perplexity)

    return train


def measure(
    name: str,
    peers: bool = False,
    corpus: DocumentCorpus | None = None,
    size: int = TOPICS,
    passes: tuple[int, ...] = PASSES,
) -> Figures:
    """Measure a model's training to the perplexity of LDA; no tables without peers, or if none is installed."""
    out = {label: missing(peer.package) for label, peer in peers_lda.PEERS.items()} if peers else {}
    absent = "; ".join(f"{label}: {why}" for label, why in out.items() if why)
    setting = {"left out": absent} if absent else {}
    if not peers or all(out.values()):
        return {"setting": setting, "tables": {}}
    corpus = speed_documents() if corpus is None else corpus
    valid, test = (part.with_words() for part in (corpus.valid, corpus.test))
    valid, test = (part.take(np.arange(min(MOST, len(part)))) for part in (valid, test))
    programs = {OURS: our_training(name, corpus, size)}
    programs |= {label: their_training(label, corpus, size) for label, why in out.items() if not why}
    programs[OURS](1, 0)  # compiled
    tried = {label: [_tried(train(number, 0), valid) for number in passes] for label, train in programs.items()}
    target = MARGIN * min(perplexity for label in programs if label != OURS for _, perplexity in tried[label])
    chosen = {label: _fewest(passes, found, target) for label, found in tried.items()}
    rounds: dict[str, list[Timed]] = {label: [] for label in programs}
    for number in range(1, ROUNDS + 1):
        for label in in_turn(programs, number):
            trained = programs[label](chosen[label], number)
            reached = trained.perplexity(valid) <= target
            rounds[label].append(Timed(trained.seconds, trained.perplexity(test), reached))
    return {
        "setting": {
            **setting, "documents of training to a perplexity": f"{len(corpus.train):,} of {corpus.note}",
            "topics or hidden units": size, "perplexity to reach on validation documents": target,
            "rounds of trainings": ROUNDS, "cores of each program": cores(),
        },
        "tables": {TITLE: _table(len(corpus.train), chosen, rounds)},
        "curves": {
            "perplexity by time": {
                "x": "seconds of training", "y": "perplexity of validation documents", "log": True,
                "lines": {label: [list(point) for point in found] for label, found in tried.items()},
            },
        },
    }  # fmt: skip


def _tried(trained: Trained, documents: Documents) -> tuple[float, float]:
    return trained.seconds, trained.perplexity(documents)


def _fewest(passes: tuple[int, ...], found: list[tuple[float, float]], target: float) -> int:
    """Return the fewest passes that reach a perplexity; if none do, those that come nearest."""
    perplexities = [perplexity for _, perplexity in found]
    reached = [number for number, perplexity in zip(passes, perplexities, strict=True) if perplexity <= target]
    return min(reached) if reached else passes[int(np.argmin(perplexities))]


def _table(documents: int, chosen: dict[str, int], rounds: dict[str, list[Timed]]) -> dict[str, dict[str, Any]]:
    seconds = {label: np.array([each.seconds for each in timed]) for label, timed in rounds.items()}
    until = {  # infinite where the perplexity was not reached
        label: np.array([each.seconds if each.reached else np.inf for each in timed]) for label, timed in rounds.items()
    }
    return {
        label: {
            "passes": number,
            "s of training": quartiles(until[label]),
            "documents/s": quartiles(number * documents / seconds[label]),
            "perplexity of test documents": quartiles([each.perplexity for each in rounds[label]]),
            **(
                {}
                if label == OURS or np.isinf(until[OURS]).any()
                else {f"this / {OURS}, s of training": quartiles(until[label] / until[OURS])}
            ),
        }
        for label, number in chosen.items()
    }
