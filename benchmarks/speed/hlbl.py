"""How fast the hierarchical model trains: compared with the flat one, and with bare reading and writing of rows.

All are timed in turn, five times, in one process, and medians are compared: what else the machine does then
hits all alike.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.core.timing import medians, step_rate
from benchmarks.language.scales import speed_text
from benchmarks.language.store import trainer
from benchmarks.speed import lbl as speed_lbl
from jaxlm.data.corpus import Corpus
from jaxlm.models import lbl
from jaxlm.models.hlbl import batch as hlbl_batch
from jaxlm.models.hlbl import model as hlbl
from jaxlm.models.hlbl.batch import TILE
from jaxlm.trees import build as trees
from jaxlm.trees.order import by_visits
from jaxlm.trees.paths import Tree, statistics

EVENTS, STEPS, BATCH, WORDS = 100_000, 20, 1000, 18_000
GROWING = (10_000, 100_000, 1_000_000)
RECIPE = replace(hlbl.RECIPES["thesis"][0], batch_size=BATCH)  # plain SGD, with decay at every step


def tree_like_t7(num_words: int, seed: int = 0) -> Tree:
    """Make four unbalanced trees under new roots, some words on both sides of a node, as ADAPTIVE(0.4) x 4 does.

    In the thesis a word of T7 has 6.8 codes and 143.2 decisions (Table 4.3), and so nearly here.
    """
    rng = np.random.default_rng(seed)

    def one() -> Tree:
        children: list[list[int]] = []
        todo: list[tuple[np.ndarray, int, int]] = [(np.arange(num_words), -1, 0)]
        while todo:
            words, parent, side = todo.pop()
            if len(words) == 1:
                children[parent][side] = ~int(words[0])
                continue
            if parent >= 0:
                children[parent][side] = len(children)
            node = len(children)
            children.append([0, 0])
            words = rng.permutation(words)
            n = len(words)
            cut = int(np.clip(round(rng.beta(1.9, 1.9) * n), 1, n - 1))
            both = words[rng.random(n) < 0.035]
            left, right = np.union1d(words[:cut], both), np.union1d(words[cut:], both)
            if max(len(left), len(right)) == n:  # neither side may be as large as the whole
                left, right = words[:cut], words[cut:]
            todo += [(left, node, 0), (right, node, 1)]
        return Tree(np.array(children, np.int32), num_words)

    return trees.join([one() for _ in range(4)])


def training(tree: Tree, corpus: Corpus) -> tuple[Callable[[], float], dict[str, Any]]:
    """Prepare steps of SGD in the engine's compiled loop, in words per second, and what is known beforehand."""
    counts = np.bincount(corpus.train, minlength=tree.num_words)
    config = hlbl.Config(num_words=tree.num_words, num_nodes=len(tree.children))
    tree = by_visits(tree, counts, config.num_hot)
    made = trainer("hlbl", corpus, RECIPE, {}, tree)
    program, data = made.program, made.data
    known = statistics(tree, counts)
    (stretch,) = made.plan_epoch().stretches
    batch = jax.eval_shape(lambda: program.batch(data, jnp.zeros(BATCH, jnp.int32), stretch.capacity, config))
    cold = float(np.mean(hlbl_batch.costs(data)[:, 1])) * TILE
    padding = (batch.hot.node.size + batch.cold.node.size) / (BATCH * known.mean_code_length)
    row = 4 * config.num_features
    return step_rate(made, STEPS), {
        "decisions_per_word": known.mean_code_length,
        "codes_per_word": known.mean_codes,
        "dense_nodes": config.num_hot,
        "padding_ratio": float(padding),
        "bytes_gathered_per_word": row * (cold + config.context_size),
    }


def tree_of_mean_depth(depth: float, counts: np.ndarray) -> Tree:
    """Make a tree whose codes are `depth` long on average, whatever the number of words.

    All nodes split their words in the same proportion, which decides the mean. Frequent words get the leaves
    nearest to `depth`, so that training, too, sees codes of that length.
    """
    n = len(counts)
    low, high = 1e-3, 0.5  # the proportion; entropy grows with it, and depth falls
    for _ in range(40):
        middle = (low + high) / 2
        entropy = -(middle * np.log2(middle) + (1 - middle) * np.log2(1 - middle))
        low, high = (middle, high) if np.log2(n) / entropy > depth else (low, middle)
    children = np.zeros((n - 1, 2), np.int64)
    depths = np.zeros(n, np.int64)
    first, size, level, slot = np.zeros(1, np.int64), np.array([n]), 0, np.array([-1])
    made = 0
    while len(first):  # level by level: sets of neighbouring leaves
        level += 1
        node = made + np.arange(len(first))
        made += len(first)
        if slot[0] >= 0:
            children.reshape(-1)[slot] = node
        left = np.clip(np.round(size * low).astype(np.int64), 1, size - 1)
        first = np.stack([first, first + left], axis=1).ravel()
        size = np.stack([left, size - left], axis=1).ravel()
        slot = (2 * node[:, None] + np.arange(2)[None]).ravel()
        leaf = size == 1
        children.reshape(-1)[slot[leaf]] = ~first[leaf]
        depths[first[leaf]] = level
        first, size, slot = first[~leaf], size[~leaf], slot[~leaf]
    words = np.empty(n, np.int64)
    words[np.argsort(np.abs(depths - depth), kind="stable")] = np.argsort(-counts, kind="stable")
    return Tree(np.where(children < 0, ~words[np.maximum(~children, 0)], children).astype(np.int32), n)


def bare_loop(tree: Tree, ids: np.ndarray, rows_per_word: int) -> Callable[[], float]:
    """Read and write back, a minibatch at a time, the rows that words need, and do nothing else: words/s.

    The context's rows of one table, and as many of another as a word has decisions, drawn like the decisions of
    the text's words.
    """
    config = hlbl.Config(num_words=tree.num_words, num_nodes=len(tree.children))
    data = hlbl.make_data(ids[: STEPS * BATCH], tree, config, 0)
    program = hlbl.program(config)
    every = np.arange(STEPS * BATCH, dtype=np.int32).reshape(STEPS, BATCH)
    costs = hlbl_batch.costs(data)
    capacity = tuple(int(n) for n in costs.reshape(STEPS, BATCH, -1).sum(axis=1).max(axis=0))
    batches = jax.jit(jax.vmap(lambda index: program.batch(data, index, capacity, config)))(jnp.asarray(every))
    nodes = np.concatenate([np.asarray(t.node).reshape(STEPS, -1) for t in (batches.hot, batches.cold)], axis=1)
    draws = np.random.default_rng(0)
    picked = [draws.choice(step[step < config.num_nodes], rows_per_word * BATCH) for step in nodes]
    contexts, paths = batches.context.reshape(STEPS, -1), jnp.asarray(np.stack(picked))
    tables = tuple(jnp.zeros((n, config.num_features)) for n in (config.num_words, config.num_nodes))

    def through(table: jax.Array, rows: jax.Array) -> jax.Array:
        # as in any step of training, all rows of the minibatch are read before any is written
        read = lax.optimization_barrier(table.at[rows].get(mode="clip"))
        return table.at[rows].add(1e-3 * read, mode="drop")

    def run(tables: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return lax.fori_loop(0, STEPS, lambda i, t: (through(t[0], contexts[i]), through(t[1], paths[i])), tables)

    compiled = jax.jit(run, donate_argnums=0)

    def measure() -> float:
        nonlocal tables
        start = time.perf_counter()
        tables = jax.block_until_ready(compiled(tables))
        return STEPS * BATCH / (time.perf_counter() - start)

    return measure


def measure() -> dict[str, Any]:
    """Measure HLBL training (100 features, context 5, batches of 1000) in words per second.

    At 18,000 words with trees like the thesis' T1 and T7 (Table 4.3), compared with LBL. Then with codes of 20
    decisions for all of 10,000, 100,000 and 1,000,000 words: `time_vs_bare` is the time per word over that of
    a loop that only reads and writes as many rows of tables of the same sizes, drawn like the decisions;
    `growth_vs_bare` is its increase since 10,000 words over that loop's increase.
    """
    corpus = speed_text(WORDS, EVENTS)
    timed = {
        "T1": training(trees.random_tree(jax.random.key(3), WORDS), corpus),
        "T7": training(tree_like_t7(WORDS), corpus),
    }
    # a full softmax, likewise by plain SGD
    flat = speed_lbl.our_steps(lbl.Config(WORDS), lbl.RECIPES["thesis"][0], corpus)
    rates = medians({"LBL": flat} | {name: rate for name, (rate, _) in timed.items()})
    figures: dict[str, Any] = {"num_words": WORDS, "LBL": {"words_per_second": rates["LBL"]}}
    for name, (_, facts) in timed.items():
        figures[name] = {"words_per_second": rates[name], "times_LBL": rates[name] / rates["LBL"], **facts}
    first_ratio = 0.0
    for num_words in GROWING:
        corpus = speed_text(num_words, EVENTS)
        tree = tree_of_mean_depth(20.0, np.bincount(corpus.train, minlength=num_words))
        rate, facts = training(tree, corpus)
        rates = medians({"model": rate, "bare": bare_loop(tree, corpus.train, 20)})
        first_ratio = first_ratio or rates["bare"] / rates["model"]
        figures[f"{num_words} words"] = {
            "words_per_second": rates["model"],
            "time_vs_bare": rates["bare"] / rates["model"],
            "growth_vs_bare": rates["bare"] / rates["model"] / first_ratio,
            **facts,
        }
    return figures
