"""Models of implicit data in other packages, each as its users call it: positives in memory in, a scorer out."""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.speed.peers import load
from jaxcf.contract import Scorer
from jaxcf.data.ratings import Ratings
from jaxfit.devices.cores import cores

CORES = cores()


class Problem(NamedTuple):
    """What a model is trained on, and its size."""

    positives: Ratings
    num_users: int
    num_items: int
    num_features: int
    seed: int


class Peer(NamedTuple):
    """A model of another package: the module that it needs, and its training."""

    package: str
    train: Callable[[Problem], Scorer]


def als_fit(options: dict[str, Any], problem: Problem) -> Callable[[], Scorer]:
    """Prepare a training of implicit's ALS, and return a function that runs it."""
    sparse, threadpoolctl = load("scipy.sparse"), load("threadpoolctl")
    user, item, counts = problem.positives[:3]
    table = sparse.csr_matrix((counts, (user, item)), shape=(problem.num_users, problem.num_items))
    limits = {"limits": 1, "user_api": "blas"}  # as it asks for: it has threads of its own
    als = load("implicit.als").AlternatingLeastSquares  # and a BLAS of its own, before threads are limited
    with threadpoolctl.threadpool_limits(**limits):
        sizes = {"factors": problem.num_features, "random_state": problem.seed}
        model = als(num_threads=CORES, use_gpu=False, **sizes, **options)

    def fit() -> Scorer:
        with threadpoolctl.threadpool_limits(**limits):
            model.fit(table, show_progress=False)
        return _of_products(model.user_factors, model.item_factors)

    return fit


def _als(options: dict[str, Any], problem: Problem) -> Scorer:
    return als_fit(options, problem)()


def _of_products(users: np.ndarray, items: np.ndarray, biases: np.ndarray | float = 0.0) -> Scorer:
    return lambda chosen: users[chosen] @ items.T + biases


def _bpr(problem: Problem) -> Scorer:
    user, item, counts = problem.positives[:3]
    maps = (OrderedDict(zip(range(n), range(n), strict=True)) for n in (problem.num_users, problem.num_items))
    triple = (user.astype(np.int64), item.astype(np.int64), counts)
    data = load("cornac.data").Dataset(problem.num_users, problem.num_items, *maps, triple)
    model = load("cornac.models").BPR(k=problem.num_features, num_threads=CORES, seed=problem.seed)
    model.fit(data)
    return _of_products(model.u_factors, model.i_factors, model.i_biases)


def _lenskit(problem: Problem) -> Scorer:
    data, als, training = load("lenskit.data"), load("lenskit.als"), load("lenskit.training")
    user, item = problem.positives[:2]
    table = load("pandas").DataFrame({"user_id": user, "item_id": item})
    every = {"users": np.arange(problem.num_users), "items": np.arange(problem.num_items)}
    model = als.ImplicitMFScorer(embedding_size=problem.num_features)
    model.train(data.from_interactions_df(table, **every), training.TrainingOptions(rng=problem.seed))
    return _of_products(np.asarray(model.user_embeddings), np.asarray(model.item_embeddings))


# For MovieLens 1M, chosen by the same validation ratings as the tuned recipe of `wmf`; its confidence is α r.
CHOSEN = {"alpha": 4.0, "regularization": 60.0}
PEERS = {
    "implicit ALS": Peer("implicit.als", partial(_als, CHOSEN)),
    "implicit ALS, its defaults": Peer("implicit.als", partial(_als, {})),
    "cornac BPR, its defaults": Peer("cornac.models", _bpr),
    "LensKit ALS, its defaults": Peer("lenskit.als", _lenskit),
}
