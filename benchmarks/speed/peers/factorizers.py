"""Matrix factorization in other programs, each as its users call it: ratings in memory in, predictions out.

All use as many threads as there are cores where they can. Each imports what it needs and no more, as the time from
the start of its process is measured, too.
"""

from collections import OrderedDict, defaultdict
from typing import Any

import numpy as np

from benchmarks.speed.peers import load
from benchmarks.speed.programs import Fit, Predict, Program, Start
from benchmarks.speed.search import FEATURES, Range
from jaxcf.data.ratings import Dataset
from jaxfit.devices.cores import cores

CORES = cores()


def _dots(P: np.ndarray, Q: np.ndarray, user: np.ndarray, item: np.ndarray) -> np.ndarray:
    return np.einsum("nd,nd->n", P[user], Q[item])


def _libmf(data: Dataset) -> Start:
    mf = load("libmf.mf")
    train = np.stack(data.train[:3], axis=1).astype(np.float32)

    def start(penalty: float | None = None, **options: Any) -> Fit:
        if penalty is not None:  # of squares; that of absolute values, which is not 0 by default, is left out
            options |= {"lambda_p1": 0.0, "lambda_q1": 0.0, "lambda_p2": penalty, "lambda_q2": penalty}
        model = mf.MF(nr_threads=CORES, quiet=True, **options)

        def fit() -> Predict:
            model.fit(train)
            return predict

        def predict(user: np.ndarray, item: np.ndarray) -> np.ndarray:
            # from its factors, as its own `predict` mixes up the pairs; who has no ratings has no factors
            dots = _dots(model.p_factors(), model.q_factors(), user, item)
            return np.where(np.isnan(dots), model.model.b, dots)

        return fit

    return start


def _cornac_data(data: Dataset) -> Any:
    """Return the ratings in the order of their file, as cornac visits them (it learns as fast in a random order)."""
    user, item, stars = data.train[:3]
    users, items = data.catalogue.num_users, data.catalogue.num_items
    maps = (OrderedDict(zip(range(n), range(n), strict=True)) for n in (users, items))
    triple = (user.astype(np.int64), item.astype(np.int64), stars.astype(np.float32))
    return load("cornac.data").Dataset(users, items, *maps, triple)


def _cornac_mf(data: Dataset) -> Start:
    models = load("cornac.models")
    train = _cornac_data(data)

    def start(**options: Any) -> Fit:
        model = models.MF(num_threads=CORES, **options)

        def fit() -> Predict:
            model.fit(train)
            return predict

        def predict(user: np.ndarray, item: np.ndarray) -> np.ndarray:
            biases = model.global_mean + model.u_biases[user] + model.i_biases[item]
            return biases + _dots(model.u_factors, model.i_factors, user, item)

        return fit

    return start


def _cornac_pmf(data: Dataset) -> Start:
    models = load("cornac.models")
    train, scale = _cornac_data(data), data.catalogue.scale

    def start(**options: Any) -> Fit:
        model = models.PMF(**options)

        def fit() -> Predict:
            model.fit(train)
            return predict

        def predict(user: np.ndarray, item: np.ndarray) -> np.ndarray:
            dots = _dots(model.U, model.V, user, item)  # of its variant "non_linear", the default
            return scale.low + (scale.high - scale.low) / (1 + np.exp(-dots))

        return fit

    return start


def _surprise(data: Dataset) -> Start:
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

    def start(**options: Any) -> Fit:
        model = surprise.SVD(**options)

        def fit() -> Predict:
            model.fit(train)
            return predict

        def predict(user: np.ndarray, item: np.ndarray) -> np.ndarray:
            return train.global_mean + model.bu[user] + model.bi[item] + _dots(model.pu, model.qi, user, item)

        return fit

    return start


def _cmfrec(data: Dataset) -> Start:
    cmfrec, sparse = load("cmfrec"), load("scipy.sparse")
    user, item, stars = data.train[:3]
    shape = (data.catalogue.num_users, data.catalogue.num_items)
    train = sparse.coo_matrix((stars, (user, item)), shape=shape)

    def start(**options: Any) -> Fit:
        model = cmfrec.CMF(nthreads=CORES, verbose=False, precompute_for_predictions=False, **options)

        def fit() -> Predict:
            model.fit(train)
            return lambda user, item: model.predict(user=user, item=item)

        return fit

    return start


# Around the programs' defaults, which are, without ranks and in order: 0.1 and none; 0.01, 0.02; 0.001, 0.001;
# 0.005, 0.02; 10, True.
PEERS: dict[str, Program] = {
    "LIBMF": Program(
        "libmf.mf", _libmf, {"k": FEATURES, "eta": Range(0.02, 0.5), "penalty": Range(0.01, 0.2)},
        "k", "nr_iters", seed=None,
    ),
    "cornac MF": Program(
        "cornac.models", _cornac_mf,
        {"k": FEATURES, "learning_rate": Range(0.002, 0.05), "lambda_reg": Range(0.004, 0.1)}, "k", "max_iter",
        seed=None,  # with one, it has one thread
    ),
    "cornac PMF": Program(
        "cornac.models", _cornac_pmf,
        {"k": FEATURES, "learning_rate": Range(0.0002, 0.005), "lambda_reg": Range(0.0002, 0.005)}, "k", "max_iter",
    ),
    "Surprise SVD": Program(
        "surprise", _surprise, {"n_factors": FEATURES, "lr_all": Range(0.001, 0.03), "reg_all": Range(0.004, 0.1)},
        "n_factors", "n_epochs", seed="random_state",
    ),
    "cmfrec": Program(
        "cmfrec", _cmfrec, {"k": FEATURES, "lambda_": Range(2.0, 50.0), "use_cg": (True, False)}, "k", "niter",
        seed="random_state", by_gradients=False,
    ),
}  # fmt: skip
