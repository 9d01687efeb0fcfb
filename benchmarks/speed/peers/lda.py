"""Latent Dirichlet allocation in other packages, each as its users call it: counts of words in, topics out.

They start processes of their own, gensim by forking: `fit_aside` fits in a process that does not run JAX.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.speed.peers import load
from jaxfit.devices.cores import cores

FEW = 50  # documents that are fitted before the clock starts, so that modules are loaded and processes run


class Problem(NamedTuple):
    """What is fitted: counts of words, a sparse matrix [documents, N_w]; topics, parameters of the priors; passes."""

    counts: Any
    num_topics: int
    alpha: float
    eta: float
    passes: int
    seed: int


class Fitted(NamedTuple):
    """Seconds of training, without the preparation of the documents; each topic's distribution, float32 [K, N_w]."""

    seconds: float
    beta: NDArray[np.float32]


class Peer(NamedTuple):
    """A way of fitting in another package: the module that it needs, and the fit."""

    package: str
    fit: Callable[[Problem], Fitted]


def scikit_learn(method: str, problem: Problem) -> Fitted:
    """Fit by scikit-learn, on all cores.

    Args:
        method: "batch" or "online".
    """
    model = load("sklearn.decomposition").LatentDirichletAllocation(
        problem.num_topics, doc_topic_prior=problem.alpha, topic_word_prior=problem.eta, learning_method=method,
        max_iter=problem.passes, n_jobs=cores(), random_state=problem.seed,
    )  # fmt: skip
    begin = perf_counter()
    model.fit(problem.counts)
    return Fitted(perf_counter() - begin, _distributions(model.components_))


def gensim(problem: Problem) -> Fitted:
    """Fit by gensim, with as many worker processes as cores."""
    model = load("gensim.models.ldamulticore").LdaMulticore
    counts, words = problem.counts, {word: str(word) for word in range(problem.counts.shape[1])}
    rows = zip(counts.indptr[:-1], counts.indptr[1:], strict=True)
    lists = [list(zip(counts.indices[a:b].tolist(), counts.data[a:b].tolist(), strict=True)) for a, b in rows]
    begin = perf_counter()
    fitted = model(
        lists, num_topics=problem.num_topics, id2word=words, alpha=[problem.alpha] * problem.num_topics,
        eta=problem.eta, passes=problem.passes, workers=cores(), random_state=problem.seed, eval_every=None,
    )  # fmt: skip
    return Fitted(perf_counter() - begin, _distributions(fitted.get_topics()))


def _distributions(weights: NDArray[Any]) -> NDArray[np.float32]:
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


PEERS = {
    **{f"scikit-learn, {method}": Peer("sklearn", partial(scikit_learn, method)) for method in ("batch", "online")},
    "gensim": Peer("gensim", gensim),
}


def fit_aside(label: str, problem: Problem) -> Fitted:
    """Fit by the peer of this label in a new process; raises RuntimeError if it fails."""
    with TemporaryDirectory() as folder:
        counts, topics = Path(folder) / "counts.npz", Path(folder) / "topics.npy"
        sparse.save_npz(counts, problem.counts)
        arguments = [str(counts), str(topics), json.dumps([label, *problem[1:]])]
        command = [sys.executable, "-m", "benchmarks.speed.peers.lda", *arguments]
        root = Path(__file__).parents[3]  # the package is not installed
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{label} failed:\n{done.stderr}")
        return Fitted(float(done.stdout.splitlines()[-1]), np.load(topics))


def main(counts: str, topics: str, arguments: str) -> None:
    """Fit counts in a file, write topics to another, and print the seconds that it took."""
    label, *rest = json.loads(arguments)
    problem, fit = Problem(sparse.load_npz(counts), *rest), PEERS[label].fit
    fit(problem._replace(counts=problem.counts[:FEW], passes=1))
    found = fit(problem)
    np.save(topics, found.beta)
    print(found.seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])
