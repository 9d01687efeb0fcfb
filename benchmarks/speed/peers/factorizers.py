"""Matrix factorization in other programs, each as its users call it: ratings in memory in, predictions out.

A program prepares the ratings in its own form, which is not timed. Its `train(**setting)` is, and returns predictions
of pairs, as the ratings' indices, in stars, which are not timed either. All use as many threads as there are cores
where they can.
"""

import os
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from scipy.special import expit

from benchmarks.speed.peers import load
from jaxcf.data.ratings import Dataset

Predict = Callable[[np.ndarray, np.ndarray], np.ndarray]
Train = Callable[..., Predict]
CORES = os.cpu_count() or 1


class Peer(NamedTuple):
    """A program: its package, how it trains at a rank, the settings that are tried.

    grid: every combination of one value for each name; passes: the name that counts passes over the ratings, and in
    turn how many there are, ascending; by_gradients: whether a pass is one of stochastic gradients.
    """

    package: str
    prepare: Callable[[Dataset, int], Train]
    grid: Mapping[str, Sequence[Any]]
    passes: tuple[str, Sequence[int]]
    by_gradients: bool = True


def _dots(P: np.ndarray, Q: np.ndarray, user: np.ndarray, item: np.ndarray) -> np.ndarray:
    return np.einsum("nd,nd->n", P[user], Q[item])


def _libmf(data: Dataset, rank: int) -> Train:
    mf = load("libmf.mf")
    train = np.stack(data.train[:3], axis=1).astype(np.float32)

    def fit(**setting: Any) -> Predict:
        penalty = setting.pop("penalty")
        model = mf.MF(
            k=rank, nr_threads=CORES, quiet=True, lambda_p1=0.0, lambda_q1=0.0, lambda_p2=penalty,
            lambda_q2=penalty, **setting,
        )  # fmt: skip
        model.fit(train)

        def predict(user: np.ndarray, item: np.ndarray) -> np.ndarray:
            # from its factors, as its own `predict` mixes up the pairs; who has no ratings has no factors
            dots = _dots(model.p_factors(), model.q_factors(), user, item)
            return np.where(np.isnan(dots), model.model.b, dots)

        return predict

    return fit


def _cornac_data(data: Dataset) -> Any:
    """The ratings in the order of their file, which is how cornac visits them (a random one comes to the same)."""
    user, item, stars = data.train[:3]
    users, items = data.catalogue.num_users, data.catalogue.num_items
    maps = (OrderedDict(zip(range(n), range(n), strict=True)) for n in (users, items))
    triple = (user.astype(np.int64), item.astype(np.int64), stars.astype(np.float32))
    return load("cornac.data").Dataset(users, items, *maps, triple)


def _cornac_mf(data: Dataset, rank: int) -> Train:
    models = load("cornac.models")
    train = _cornac_data(data)

    def fit(**setting: Any) -> Predict:
        model = models.MF(k=rank, num_threads=CORES, **setting).fit(train)

        def predict(user: np.ndarray, item: np.ndarray) -> np.ndarray:
            biases = model.global_mean + model.u_biases[user] + model.i_biases[item]
            return biases + _dots(model.u_factors, model.i_factors, user, item)

        return predict

    return fit


def _cornac_pmf(data: Dataset, rank: int) -> Train:
    models = load("cornac.models")
    train, scale = _cornac_data(data), data.catalogue.scale

    def fit(**setting: Any) -> Predict:
        model = models.PMF(k=rank, variant="non_linear", seed=1, **setting).fit(train)

        def predict(user: np.ndarray, item: np.ndarray) -> np.ndarray:
            return scale.low + (scale.high - scale.low) * expit(_dots(model.U, model.V, user, item))

        return predict

    return fit


def _surprise(data: Dataset, rank: int) -> Train:
    surprise = load("surprise")
    by_user: dict[int, list[Any]] = defaultdict(list)
    by_item: dict[int, list[Any]] = defaultdict(list)
    for user, item, stars in zip(*(column.tolist() for column in data.train[:3]), strict=True):
        by_user[user].append((item, stars))
        by_item[item].append((user, stars))
    users, items, scale = data.catalogue.num_users, data.catalogue.num_items, data.catalogue.scale
    same = ({i: i for i in range(n)} for n in (users, items))
    size = len(data.train.user)
    train = surprise.Trainset(by_user, by_item, users, items, size, (scale.low, scale.high), *same)

    def fit(**setting: Any) -> Predict:
        model = surprise.SVD(n_factors=rank, random_state=1, **setting).fit(train)

        def predict(user: np.ndarray, item: np.ndarray) -> np.ndarray:
            return train.global_mean + model.bu[user] + model.bi[item] + _dots(model.pu, model.qi, user, item)

        return predict

    return fit


def _cmfrec(data: Dataset, rank: int) -> Train:
    cmfrec = load("cmfrec")
    user, item, stars = data.train[:3]
    shape = (data.catalogue.num_users, data.catalogue.num_items)
    train = scipy.sparse.coo_matrix((stars, (user, item)), shape=shape)

    def fit(**setting: Any) -> Predict:
        model = cmfrec.CMF(k=rank, nthreads=CORES, verbose=False, precompute_for_predictions=False, **setting).fit(
            train
        )
        return lambda user, item: model.predict(user=user, item=item)

    return fit


# The grids were chosen on validation ratings of MovieLens 1M, around what served each program best there.
PEERS: dict[str, Peer] = {
    "LIBMF": Peer(
        "libmf.mf", _libmf, {"eta": (0.1, 0.2), "penalty": (0.03, 0.05)}, ("nr_iters", (4, 6, 8, 10, 15, 20, 30))
    ),
    "cornac MF": Peer(
        "cornac", _cornac_mf, {"learning_rate": (0.01, 0.02), "lambda_reg": (0.02, 0.03)},
        ("max_iter", (6, 8, 10, 12, 15, 20, 25, 30)),
    ),
    "cornac PMF": Peer(
        "cornac", _cornac_pmf, {"learning_rate": (0.001, 0.002), "lambda_reg": (0.001,)}, ("max_iter", (10, 20))
    ),
    "Surprise SVD": Peer(
        "surprise", _surprise, {"lr_all": (0.01, 0.02), "reg_all": (0.04, 0.08)}, ("n_epochs", (5, 10, 15, 20, 30))
    ),
    "cmfrec": Peer(
        "cmfrec", _cmfrec, {"lambda_": (10.0, 15.0), "use_cg": (True, False)}, ("niter", (2, 3, 4, 5, 6, 8)), False
    ),
}  # fmt: skip
