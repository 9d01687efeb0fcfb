"""Training speed of the hierarchical model, by the number of words and by the length of their codes.

It is compared with the flat model, and with bare reading and writing of rows; all in alternating rounds.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import cycle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.core.statistics import quartiles
from benchmarks.core.timing import interleaved, step_rate, windowed
from benchmarks.language.scales import speed_text
from benchmarks.language.store import trainer
from benchmarks.measurement import limits
from benchmarks.speed import plain_steps
from benchmarks.speed.throughput import Figures
from jaxlm.data.corpus import Corpus
from jaxlm.models import lbl
from jaxlm.models.hlbl import model as hlbl
from jaxlm.objectives.tree_tiles import TILE
from jaxlm.trees import build as trees
from jaxlm.trees.clustering import spread
from jaxlm.trees.order import by_visits, visits
from jaxlm.trees.paths import Tree, paths, statistics

EVENTS, STEPS, BATCH, WORDS = 100_000, 20, 1000, 18_000
GROWING, DEPTH = (10_000, 100_000, 1_000_000), 20  # words, and decisions of each
DECISIONS, RATE, FLAT = "decisions of a word", "words/s", "LBL"
LIMITS = f"{limits.LIMITS} in the rounds of these"
RECIPE = replace(hlbl.RECIPES["thesis"][0], batch_size=BATCH)  # plain SGD, with decay at every step


def tree_like_t7(num_words: int) -> Tree:
    """Make four unbalanced trees under new roots, some words on both sides of a node, as ADAPTIVE(0.4) x 4 does.

    In the thesis a word of T7 has 6.8 codes and 143.2 decisions (Table 4.3); one of 18,000 here has 7.0 and 143.1.
    """
    draws = np.random.default_rng(0)

    def split(level: int, words: trees.Ints, sizes: trees.Ints, leaves: int) -> trees.Sides:
        cut = np.clip(np.round(draws.beta(1.5, 1.5, len(sizes)) * sizes), 1, sizes - 1)
        left = trees.ranks(sizes) < spread(cut, sizes)
        both = draws.random(len(words)) < 0.034
        return trees.proper_sides(left | both, ~left | both, left, sizes)

    return trees.join([trees.grow(draws.permutation(num_words), split) for _ in range(4)])


def training(tree: Tree, corpus: Corpus) -> tuple[Callable[[], float], dict[str, Any]]:
    """Return a function that measures words per second of SGD in the engine's compiled loop, and the tree's figures."""
    counts = corpus.word_counts()
    config = hlbl.Config(num_words=tree.num_words, num_nodes=len(tree.children))
    made = trainer("hlbl", corpus, RECIPE, {}, by_visits(tree, counts, config.num_hot))
    known = statistics(tree, counts)
    (stretch,) = made.plan_epoch().stretches
    hot_tiles, cold_tiles = np.ravel(stretch.capacity)[:2]
    assert made.costs is not None
    cold = float(np.mean(made.costs[:, 1])) * TILE
    return step_rate(made, STEPS), {
        DECISIONS: known.mean_code_length,
        "codes of a word": known.mean_codes,
        "dense nodes": config.num_hot,
        "padding ratio": TILE * (hot_tiles + cold_tiles) / (BATCH * known.mean_code_length),
        "bytes gathered of a word": 4 * config.num_features * (cold + config.context_size),
    }


def tree_of_mean_depth(depth: float, counts: np.ndarray) -> Tree:
    """Make a tree of at most 2**depth words whose codes are `depth` long on average.

    All nodes split their words in the same proportion, which decides the mean. Frequent words get the leaves
    nearest to `depth`, so that training, too, sees codes of that length.
    """
    n = len(counts)

    def excess(share: float) -> float:
        entropy = -(share * np.log2(share) + (1 - share) * np.log2(1 - share))
        return np.log2(n) / entropy - depth

    from scipy.optimize import brentq  # here, as it takes a while

    share = brentq(excess, 1e-3, 0.5)

    def split(level: int, words: trees.Ints, sizes: trees.Ints, leaves: int) -> trees.Sides:
        left = trees.ranks(sizes) < spread(np.clip(np.round(share * sizes), 1, sizes - 1), sizes)
        return left, ~left

    tree = trees.grow(np.arange(n), split)
    words = np.empty(n, np.int32)  # in place of those that were split, each of which has one leaf
    lengths = np.diff(paths(tree).code_nodes)
    words[np.argsort(np.abs(lengths - depth), kind="stable")] = np.argsort(-counts, kind="stable")
    leaf = tree.children < 0
    tree.children[leaf] = ~words[~tree.children[leaf]]
    return tree


def bare_loop(tree: Tree, ids: np.ndarray) -> Callable[[], float]:
    """Return a function that measures words/s of a loop that only reads and writes back the rows that words need.

    These are the context's rows of one table, and DEPTH rows of another for each word, drawn like the decisions of the
    text's words; a minibatch is read before it is written.
    """
    config = hlbl.Config(num_words=tree.num_words, num_nodes=len(tree.children))
    count = visits(tree, np.bincount(ids, minlength=tree.num_words))
    draws = np.random.default_rng(0)
    windows = np.lib.stride_tricks.sliding_window_view(ids, config.context_size)
    number = len(windows) // BATCH // STEPS * STEPS  # minibatches
    nodes = jnp.asarray(draws.choice(len(count), (number, DEPTH * BATCH), p=count / count.sum()), jnp.int32)
    windows = windows[: number * BATCH].reshape(number, BATCH, -1).swapaxes(1, 2)
    contexts = jnp.asarray(windows.reshape(number, -1))
    tables = tuple(jnp.zeros((n, config.num_features)) for n in (config.num_words, config.num_nodes))

    def through(table: jax.Array, rows: jax.Array) -> jax.Array:
        # as in any step of training, all rows of the minibatch are read before any is written
        read = lax.optimization_barrier(table.at[rows].get(mode="clip"))
        return table.at[rows].add(1e-3 * read, mode="drop")

    def run(tables: tuple[jax.Array, jax.Array], begin: int) -> tuple[jax.Array, jax.Array]:
        def step(i: jax.Array, t: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            return through(t[0], contexts[i]), through(t[1], nodes[i])

        return lax.fori_loop(begin, begin + STEPS, step, tables)

    compiled, begins = jax.jit(run, donate_argnums=0), cycle(range(0, number, STEPS))

    def steps() -> None:
        nonlocal tables
        tables = jax.block_until_ready(compiled(tables, next(begins)))

    return lambda: STEPS * BATCH / float(np.mean(windowed(steps)))


def measure() -> Figures:
    """Measure HLBL training (100 features, context 5, batches of 1000) in words per second.

    First, 18,000 words with trees like the thesis' T1 and T7 (Table 4.3) and with codes of 20 decisions, beside the
    LBL. Then 10,000, 100,000 and 1,000,000 words, all with codes of 20 decisions, beside a loop that only reads and
    writes as many rows of tables of the same sizes, drawn like the decisions.
    """
    corpus = speed_text(WORDS, EVENTS)
    by_code = {
        "HLBL, T1": training(trees.random_tree(jax.random.key(3), WORDS), corpus),
        f"HLBL, codes of {DEPTH}": training(tree_of_mean_depth(DEPTH, corpus.word_counts()), corpus),
        "HLBL, T7": training(tree_like_t7(WORDS), corpus),
    }
    measures = {name: steps for name, (steps, _) in by_code.items()}
    # a full softmax, likewise by plain SGD
    measures[FLAT] = plain_steps.our_steps("lbl", lbl.RECIPES["thesis"][0], corpus)
    named = {n: (f"HLBL, {n:,} words", f"bare loop, {n:,} words") for n in GROWING}
    by_words = {}
    for num_words, (ours, loop) in named.items():
        corpus = speed_text(num_words, EVENTS)
        tree = tree_of_mean_depth(DEPTH, corpus.word_counts())
        measures[ours], by_words[num_words] = training(tree, corpus)
        measures[loop] = bare_loop(tree, corpus.train)
    measured = interleaved({**limits.measures(), **measures})
    rates = {name: np.asarray(found) for name, found in measured.items()}

    codes: dict[str, dict[str, Any]] = {FLAT: {RATE: quartiles(rates[FLAT])}}
    for name, (_, facts) in by_code.items():
        codes[name] = {RATE: quartiles(rates[name]), "times LBL": quartiles(rates[name] / rates[FLAT]), **facts}
    words: dict[str, dict[str, Any]] = {}
    slower = {n: rates[loop] / rates[ours] for n, (ours, loop) in named.items()}
    for num_words, (ours, loop) in named.items():
        words[ours] = {
            RATE: quartiles(rates[ours]),
            "bare loop / this": quartiles(slower[num_words]),
            **by_words[num_words],
        }
        if num_words > GROWING[0]:
            growth = slower[num_words] / slower[GROWING[0]]
            words[ours][f"that, relative to {GROWING[0]:,} words"] = quartiles(growth)
        words[loop] = {RATE: quartiles(rates[loop])}

    def medians(places: Iterable[tuple[float, str]]) -> list[list[float]]:
        return [[float(x), float(np.median(rates[name]))] for x, name in places]

    lines = {kind: [(n, named[n][i]) for n in GROWING] for i, kind in enumerate(("HLBL", "bare loop"))}
    lengths = [(facts[DECISIONS], name) for name, (_, facts) in by_code.items()]
    titles = f"by code length, {WORDS:,} words", f"by vocabulary, codes of {DEPTH}"
    return {
        "setting": {"features": 100, "minibatch": BATCH},
        "tables": {**dict(zip(titles, (codes, words), strict=True)), LIMITS: limits.table(measured)},
        "limits": dict.fromkeys(titles, LIMITS),
        "curves": {
            "throughput by vocabulary": {
                "x": "words", "y": RATE, "log": True,
                "lines": {kind: medians(places) for kind, places in lines.items()},
            },
            "throughput by code length": {
                "x": DECISIONS, "y": RATE, "log": True, "lines": {f"HLBL, {WORDS:,} words": medians(lengths)},
            },
        },
    }  # fmt: skip
