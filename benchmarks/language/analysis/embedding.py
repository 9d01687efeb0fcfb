"""Figures 3.3, 3.4, 4.1 and 4.2: word vectors in the plane, by t-SNE, and how well the vectors are estimated."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import jaxlm
from benchmarks.core import figure, record
from benchmarks.core.table import Measured, Row
from benchmarks.core.verdict import Scores
from benchmarks.language.store import LanguageStore, Spec
from jaxlm.tasks.neighbours import shared

WORDS, PERPLEXITY = 1000, 20.0  # §3.4.3
NEAREST = 10  # neighbours of a word that are compared
INCHES, POINTS = 12.0, 7.0  # of the picture's longer side, and of its type
RARE, FREQUENT = "least frequent", "most frequent"


def words_of(store: LanguageStore, which: str) -> np.ndarray:
    """Return the ids of the RARE or the FREQUENT words, the most frequent first; of few words, half of each."""
    counts = store.corpus.word_counts()
    order = np.argsort(-counts, kind="stable")
    size = min(WORDS, len(order) // 2)
    return order[:size] if which == FREQUENT else order[-size:]


def paired(spec: Spec, seeds: int) -> tuple[tuple[Spec, Spec], ...]:
    """Return a model with each seed, paired with the next one; of two seeds, or one, a single pair."""
    pairs = [(seed, seed % seeds + 1) for seed in range(1, seeds + 1)] if seeds > 2 else [(1, 2)]
    return tuple((spec.with_seed(one), spec.with_seed(other)) for one, other in pairs)


def apart(row: Row) -> tuple[tuple[Any, ...], ...]:
    """Return every other draw of a row of pairs; these have no seed in common, so that they are independent.

    A verdict takes three such pairs, that is, six seeds.
    """
    return row.draws[: max(1, len(row.draws) // 2 * 2) : 2]


@lru_cache(maxsize=8)
def vectors(store: LanguageStore, spec: Spec) -> np.ndarray:
    """Return a model's feature vectors, [N_w, N_f]."""
    return jaxlm.load(store.get(spec).directory).vectors()


@lru_cache(maxsize=8)
def embedded(store: LanguageStore, spec: Spec, which: str) -> np.ndarray:
    """Embed words in the plane by t-SNE (van der Maaten and Hinton 2008): [words, 2].

    Differs: for few words, the perplexity is a third of their number, which is its maximum. The thesis does not say how
    t-SNE was initialised; here by principal components, with a fixed seed.
    """
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    of_words = vectors(store, spec)[words_of(store, which)]
    perplexity = min(PERPLEXITY, (len(of_words) - 1) / 3)
    with threadpool_limits(1):  # threads that wait for one another on busy cores make it tens of times slower
        return TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(of_words)


def measure(which: str, store: LanguageStore, specs: tuple[Spec, Spec], part: str) -> Measured:
    """Measure how well vectors of RARE or FREQUENT words are estimated: the NEAREST words that two seeds agree on.

    Args:
        specs: a model with one seed and with another.

    Returns:
        `agreed`, the share of a word's nearest words, among those in question, that are the same with both seeds; it is
        the smaller, the more the vectors are due to chance. Units of its bootstrap are words.
    """
    one, other = (vectors(store, spec)[words_of(store, which)] for spec in specs)
    return {"agreed": _over_words(shared(one, other, NEAREST))}


def measure_and_embed(which: str, store: LanguageStore, specs: tuple[Spec, Spec], part: str) -> Measured:
    """Apply `measure`, and embed the words of the first model: `kept` is the share of nearest words that stay near."""
    ids = words_of(store, which)
    points = embedded(store, specs[0], which)
    kept = shared(vectors(store, specs[0])[ids], points, NEAREST)
    vocabulary, counts = store.corpus.vocabulary, store.corpus.word_counts()
    drawn = {
        **{
            axis: np.round(of_axis.astype(np.float64), 2).tolist() for axis, of_axis in zip("xy", points.T, strict=True)
        },
        "counts": counts[ids].tolist(),
        record.TEXT: [vocabulary.words[i] for i in ids],
    }
    return {**measure(which, store, specs, part), "kept": _over_words(kept), record.DRAWN: drawn}


def _over_words(shares: np.ndarray) -> Scores:
    return Scores(shares, np.ones(len(shares)), np.positive)


def caption(result: dict[str, Any]) -> str:
    """Say what a figure shows."""
    number = result["table"].removeprefix("figure-")
    data = f"{result['data']['name']}, scale {result['scale']}, recipe {result['recipe']}"
    return f"Figure {number} of Mnih (2010): {result['title']} ({data})"


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw words at their points; those that would overlap a word drawn before become points.

    Words with characters that the font lacks are points, too.
    """
    drawn = result["rows"][0][record.DRAWN]
    points, words = np.column_stack([drawn["x"], drawn["y"]]), drawn.get(record.TEXT, [])
    span, middle = 1.06 * np.ptp(points, axis=0), (points.min(axis=0) + points.max(axis=0)) / 2
    unit = span.max() / (INCHES * 72)  # of the data, in a point (1/72 inch)
    size = tuple(span / (unit * 72))  # both axes have one scale
    with figure.panels(path, caption(result), ncols=1, squeeze=False, figsize=size) as ((ax,),):
        shown = labelled(points, written(words), 0.62 * POINTS * unit, 1.2 * POINTS * unit)
        hidden = np.setdiff1d(np.arange(len(points)), shown)
        ax.plot(*points[hidden].T, ".", markersize=2, color="tab:grey")
        for i in shown:
            # in a common sans-serif type; "$" would begin a formula
            ax.text(*points[i], words[i].replace("$", r"\$"), fontsize=POINTS, ha="center", va="center")
        limits = {
            f"{axis}lim": (mid - wide / 2, mid + wide / 2) for axis, mid, wide in zip("xy", middle, span, strict=True)
        }
        ax.set(**limits, xticks=[], yticks=[])


def written(words: list[str]) -> list[str]:
    """Return the words, with "" in place of each that has a character that the figure's font lacks."""
    from matplotlib import font_manager

    font = font_manager.get_font(font_manager.findfont(font_manager.FontProperties()))
    return [word if all(font.get_char_index(ord(letter)) for letter in word) else "" for word in words]


def labelled(points: np.ndarray, words: list[str], width: float, height: float) -> list[int]:
    """Choose words that can be written at their points without overlap, in the order in which they come.

    Args:
        points: [words, 2], the middles of labels.
        words: labels, "" for a point without one; empty if only points are drawn.
        width: of a letter, in units of `points`.
        height: of a line, in units of `points`.
    """
    shown: list[int] = []
    halves = np.array([len(word) * width / 2 for word in words])
    for i in range(len(words)):
        apart = np.abs(points[shown] - points[i])
        if words[i] and np.all((apart[:, 0] > halves[shown] + halves[i]) | (apart[:, 1] > height)):
            shown.append(i)
    return shown
