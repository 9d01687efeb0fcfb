"""The kinds of models that `jaxcf` trains, and how each predicts for users that it knows and that it never saw."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from jaxcf import als, bias, cpmf, crbm, pmf, rbm, vectors
from jaxcf.ratings import Catalogue, Dataset, Pairs, Ratings, Scale
from jaxfit.recipe import Recipe
from jaxfit.step import Program

FOLD_IN_DECAY = 1e-2  # of a new user of a model that has none itself, so that its best vector is determined


class Audience(NamedTuple):
    """Users 0 … number-1 and what is known of them: ratings, and whom they rated beside (conditional models)."""

    number: int
    ratings: Ratings
    rated: Pairs


Expected = Callable[[np.ndarray, np.ndarray], np.ndarray]  # users, items (-1: unknown) -> stars, not clipped


class Setting(NamedTuple):
    """What the engine trains: the program, parameters before training, and the data of ratings and a known set."""

    program: Program
    params: Any
    train: Any
    valid: Any


class Kind(NamedTuple):
    """A kind of model.

    config: its Config; recipes: as a model file's RECIPES; fixed: fields of Config that make it this kind;
    names: its parameters; setting(key, data, rated, config) -> Setting, None for a closed form; like(config) ->
    shapes of parameters; trained(params, config, audience) -> Expected for the users that it was trained on;
    folded(params, config, audience, decay) -> Expected for others, all parameters as they are; items(params, config)
    -> [items, …] vectors that are alike for like items, None where it has none.
    """

    about: str
    config: Any
    recipes: Mapping[str, tuple[Any, dict[str, Any]]]
    fixed: dict[str, Any]
    names: tuple[str, ...]
    setting: Callable[[jax.Array, Dataset, Pairs, Any], Setting] | None
    like: Callable[[Any], Any]
    trained: Callable[[Any, Any, Audience], Expected]
    folded: Callable[[Any, Any, Audience, Mapping[str, float]], Expected]
    items: Callable[[Any, Any], NDArray[np.float32] | None]
    conditional: bool = False


def sizes(kind: Kind, catalogue: Catalogue, mean: float) -> dict[str, Any]:
    """The fields of a kind's Config that its data decide."""
    known = {"num_users": catalogue.num_users, "num_items": catalogue.num_items, "mean": mean}
    scale = {"num_values": catalogue.scale.levels, "low": catalogue.scale.low, "step": catalogue.scale.step}
    names = kind.config.__dataclass_fields__
    return {name: value for name, value in {**known, **scale}.items() if name in names}


FROM_DATA = ("num_users", "num_items", "mean", "num_values", "low", "step")  # those fields


def _numpy(function: Callable[..., Any]) -> Expected:
    return lambda user, item: np.asarray(function(user, item), np.float32)


# bias models


def _bias_trained(params: bias.Params, config: bias.Config, audience: Audience) -> Expected:
    return _numpy(lambda user, item: bias.predict(params, user, item, config))


def _bias_folded(
    params: bias.Params, config: bias.Config, audience: Audience, decay: Mapping[str, float]
) -> Expected:
    if not config.users:
        return _bias_trained(params, config, audience)
    known = audience.ratings
    own = replace(config, num_users=audience.number, items=False, mean=0.0)
    rest = known.stars - np.asarray(bias.predict(params, np.full(len(known.user), -1), known.item, config))
    b = bias.solve(known._replace(stars=rest.astype(np.float32)), own).b
    return _bias_trained(params._replace(b=b), config, audience)


def _bias_like(config: bias.Config) -> bias.Params:
    return bias.Params(jnp.zeros(config.num_users), jnp.zeros(config.num_items))


# PMF


def _pmf_setting(key: jax.Array, data: Dataset, rated: Pairs, config: pmf.Config) -> Setting:
    ratings = pmf.make_data(data.train), pmf.make_data(data.valid)
    params = pmf.init(key, config)
    params = params._replace(U=_of_rated(params.U, data.train.user), V=_of_rated(params.V, data.train.item))
    return Setting(pmf.program(config), params, *ratings)


def _of_rated(table: jax.Array, index: NDArray[np.int32]) -> jax.Array:
    """The rows that training ratings use; the others at the prior's mean, 0, where nothing would move them from."""
    used = np.bincount(index, minlength=table.shape[0]) > 0
    return jnp.where(jnp.asarray(used)[:, None], table, 0.0)


def _pmf_like(config: pmf.Config) -> Any:
    return jax.eval_shape(lambda: pmf.init(jax.random.key(0), config))


def _pmf_trained(params: pmf.Params, config: pmf.Config, audience: Audience) -> Expected:
    return _numpy(lambda user, item: pmf.predict(params, user, item, config))


def _pmf_folded(
    params: pmf.Params, config: pmf.Config, audience: Audience, decay: Mapping[str, float]
) -> Expected:
    held = {name: value or FOLD_IN_DECAY for name, value in decay.items()}
    U, b = als.fold_in_users(audience.ratings, audience.number, params, config, held)
    return _pmf_trained(params._replace(U=U, b=b), config, audience)


# conditional PMF


def _cpmf_setting(key: jax.Array, data: Dataset, rated: Pairs, config: cpmf.Config) -> Setting:
    sets = cpmf.make_rated(data.train, rated, config=config)
    ratings = (cpmf.make_data(part, sets, config) for part in (data.train, data.valid))
    params = cpmf.init(key, config)
    params = params._replace(Y=_of_rated(params.Y, data.train.user), V=_of_rated(params.V, data.train.item))
    return Setting(cpmf.program(config), params, *ratings)


def _cpmf_like(config: cpmf.Config) -> Any:
    return jax.eval_shape(lambda: cpmf.init(jax.random.key(0), config))


def _cpmf_trained(params: cpmf.Params, config: cpmf.Config, audience: Audience) -> Expected:
    sets = cpmf.make_rated(audience.ratings, audience.rated, config=config)
    return _pmf_trained(cpmf.as_pmf(params, sets), config, audience)


def _cpmf_folded(
    params: cpmf.Params, config: cpmf.Config, audience: Audience, decay: Mapping[str, float]
) -> Expected:
    """With μ known, what it leaves of the ratings is PMF's to fit: by offsets and biases of the new users."""
    own = replace(config, num_users=audience.number)
    sets = cpmf.make_rated(audience.ratings, audience.rated, config=own)
    means = cpmf.conditions(params.W, sets)
    known = audience.ratings
    expected = np.sum(np.asarray(means)[known.user] * np.asarray(params.V)[known.item], axis=1)
    rest = known._replace(stars=(known.stars - expected).astype(np.float32))
    held = {name: decay.get(name, decay.get("*", 0.0)) or FOLD_IN_DECAY for name in ("Y", "V", "b", "c")}
    held["U"] = held.pop("Y")
    plain = pmf.Params(means, params.V, jnp.zeros(audience.number), params.c)
    Y, b = als.fold_in_users(rest, audience.number, plain, own, held)
    return _pmf_trained(plain._replace(U=means + Y, b=b), config, audience)


# RBMs


def _rbm_setting(key: jax.Array, data: Dataset, rated: Pairs, config: rbm.Config) -> Setting:
    return _of_vectors(rbm, key, data, None, config)


def _crbm_setting(key: jax.Array, data: Dataset, rated: Pairs, config: rbm.Config) -> Setting:
    return _of_vectors(crbm, key, data, (data.train, rated), config)


def _of_vectors(module: Any, key: jax.Array, data: Dataset, rated: Any, config: rbm.Config) -> Setting:
    scale, users = data.catalogue.scale, data.catalogue.num_users
    params = module.init(key, config, data.train, scale.level(data.train.stars))
    known = vectors.make_data(data.train, users, scale, rated=rated)
    valid = known._replace(wanted=vectors.lists(data.valid, users, scale))
    return Setting(module.program(config), params, known, valid)


def _rbm_like(config: rbm.Config) -> rbm.Params:
    I, K, H = config.num_items, config.num_values, config.num_hidden
    return rbm.Params(jnp.zeros((I * K, H)), jnp.zeros((I, K)), jnp.zeros(H))


def _crbm_like(config: rbm.Config) -> crbm.Params:
    return crbm.Params(*_rbm_like(config), jnp.zeros((config.num_items, config.num_hidden)))


def _scale(config: rbm.Config) -> Scale:
    return Scale(config.low, config.low + config.step * (config.num_values - 1), config.step)


def _rbm_expected(params: Any, config: rbm.Config, audience: Audience) -> Expected:
    module: Any = crbm if isinstance(params, crbm.Params) else rbm
    rated = (audience.ratings, audience.rated) if module is crbm else None
    known = vectors.make_data(audience.ratings, audience.number, _scale(config), rated=rated)
    return _numpy(lambda user, item: rbm.expected(module.predict(params, known, user, item, config), config))


def _rbm_folded(params: Any, config: rbm.Config, audience: Audience, decay: Mapping[str, float]) -> Expected:
    return _rbm_expected(params, config, audience)


def _rbm_items(params: Any, config: rbm.Config) -> NDArray[np.float32]:
    """What a movie's ratings say of the hidden units, whatever the rating says by itself: [items, K N_h]."""
    W = np.asarray(params.W).reshape(config.num_items, config.num_values, -1)
    return (W - W.mean(axis=1, keepdims=True)).reshape(config.num_items, -1)


def _features(params: Any, config: Any) -> NDArray[np.float32]:
    return np.asarray(params.V)


def _none(params: Any, config: Any) -> None:
    return None


def _bias(about: str, name: str) -> Kind:
    return Kind(
        about, bias.Config, {recipe: (None, values) for recipe, values in bias.RECIPES.items()}, bias.KINDS[name],
        bias.Params._fields, None, _bias_like, _bias_trained, _bias_folded, _none,
    )  # fmt: skip


def _pmf(about: str, recipes: Mapping[str, tuple[Recipe, dict[str, Any]]], fixed: dict[str, Any]) -> Kind:
    return Kind(
        about, pmf.Config, recipes, fixed, pmf.Params._fields, _pmf_setting, _pmf_like, _pmf_trained, _pmf_folded,
        _features,
    )  # fmt: skip


KINDS: dict[str, Kind] = {
    "user-bias": _bias("a bias for each user", "user-bias"),
    "item-bias": _bias("a bias for each item (the thesis' movie-bias)", "item-bias"),
    "bias": _bias("a bias for each user and each item", "bias"),
    "svd": _pmf("online SVD: PMF without priors and biases", pmf.SVD_RECIPES, {"biases": False}),
    "svd-bias": _pmf("online SVD with biases", pmf.SVD_RECIPES, {"biases": True}),
    "pmf": _pmf("probabilistic matrix factorization (thesis, 5.3.1)", pmf.RECIPES, {}),
    "cpmf": Kind(
        "conditional PMF, which knows what a user rated (5.3.2)", cpmf.Config, cpmf.RECIPES, {},
        cpmf.Params._fields, _cpmf_setting, _cpmf_like, _cpmf_trained, _cpmf_folded, _features, True,
    ),
    "rbm": Kind(
        "the restricted Boltzmann machine over ratings (5.2.1)", rbm.Config, rbm.RECIPES, {}, rbm.Params._fields,
        _rbm_setting, _rbm_like, _rbm_expected, _rbm_folded, _rbm_items,
    ),
    "crbm": Kind(
        "conditional RBM, which knows what a user rated (5.2.2)", rbm.Config, crbm.RECIPES, {},
        crbm.Params._fields, _crbm_setting, _crbm_like, _rbm_expected, _rbm_folded, _rbm_items, True,
    ),
}  # fmt: skip
