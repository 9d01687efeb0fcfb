"""The kinds of models that `jaxcf` trains, and how each predicts for users that it knows and that it never saw."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from jaxcf.data import user_batches as vectors
from jaxcf.data.ratings import Catalogue, Dataset, Pairs, Ratings, Scale
from jaxcf.models import bias, crbm, pmf
from jaxcf.models.cpmf import model as cpmf
from jaxcf.models.rbm import model as rbm
from jaxcf.solvers import als
from jaxfit.program import Program
from jaxfit.recipe import Recipe

FOLD_IN_DECAY = (
    1e-2  # of whoever is new to a model that has none itself, so that its best vector is determined
)
RATINGS_AT_ONCE = 1 << 22  # that are looked through for the users, or items, that have any
PAIRS_AT_ONCE = 1 << 18  # that are predicted by one call of a compiled program, at most


class Audience(NamedTuple):
    """Users 0 … number-1 and what is known of them: ratings, and what they rated beside (conditional models).

    only: conditional models are told of `rated` alone, not also of what the ratings are of.
    """

    number: int
    ratings: Ratings
    rated: Pairs
    only: bool = False

    @property
    def identities(self) -> tuple[Ratings | Pairs, ...]:
        """The sets whose union conditional models condition on."""
        return (self.rated,) if self.only else (self.ratings, self.rated)

    def told(self, rated: Pairs, only: bool = False) -> "Audience":
        """The same users, told of more pairs; with `only`, of these in place of all others."""
        pairs = Pairs(*(np.concatenate(parts) for parts in zip(self.rated, rated, strict=True)))
        return self._replace(rated=rated if only else pairs, only=only or self.only)


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
    -> [items, …] vectors that are alike for like items, None where it has none; exact(params, config, audience) ->
    Expected for anybody, where what `trained` and `folded` give is an approximation; grown(params, config, place,
    ratings, number, decay) -> parameters and Config of `number` items: the old ones at `place`, others from ratings;
    alternating: `als.fit`, where it finds the same posterior mode as the engine does.
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
    exact: Callable[[Any, Any, Audience], Expected] | None = None
    grown: Callable[[Any, Any, NDArray[np.int32], Ratings, int, Mapping[str, float]], Any] | None = None
    alternating: Callable[..., als.Fitted] | None = None


def sizes(kind: Kind, catalogue: Catalogue, mean: float) -> dict[str, Any]:
    """The fields of a kind's Config that its data decide."""
    known = {"num_users": catalogue.num_users, "num_items": catalogue.num_items, "mean": mean}
    scale = {"num_values": catalogue.scale.levels, "low": catalogue.scale.low, "step": catalogue.scale.step}
    names = kind.config.__dataclass_fields__
    return {name: value for name, value in {**known, **scale}.items() if name in names}


FROM_DATA = ("num_users", "num_items", "mean", "num_values", "low", "step")  # those fields


@functools.partial(jax.jit, static_argnames=("predict", "config"))
def _predict(predict: Any, params: Any, user: jax.Array, item: jax.Array, config: Any) -> jax.Array:
    return predict(params, user, item, config)


def _pairwise(predict: Any, params: Any, config: Any) -> Expected:
    """Predictions by one compiled program: pairs go in blocks whose sizes are powers of two."""

    def expected(user: np.ndarray, item: np.ndarray) -> NDArray[np.float32]:
        number = len(user)
        size = min(PAIRS_AT_ONCE, max(128, 1 << (number - 1).bit_length()))
        blocks = [
            np.pad(np.asarray(ids, np.int32), (0, -number % size), constant_values=-1).reshape(-1, size)
            for ids in (user, item)
        ]
        stars = [_predict(predict, params, *block, config) for block in zip(*blocks, strict=True)]
        return np.concatenate([*stars, np.zeros(0, np.float32)])[:number]

    return expected


def _held(decay: Mapping[str, float]) -> dict[str, float]:
    """The decay under which new users and items are solved for: above 0."""
    return {name: value or FOLD_IN_DECAY for name, value in decay.items()}


# bias models


def _bias_trained(params: bias.Params, config: bias.Config, audience: Audience) -> Expected:
    return _pairwise(bias.predict, params, config)


def _bias_folded(
    params: bias.Params, config: bias.Config, audience: Audience, decay: Mapping[str, float]
) -> Expected:
    if not config.users:
        return _bias_trained(params, config, audience)
    known = audience.ratings
    own = replace(config, num_users=audience.number, items=False, mean=0.0)
    rest = known.stars - _bias_trained(params, config, audience)(np.full(len(known.user), -1), known.item)
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
    used = np.zeros(table.shape[0], bool)
    for begin in range(0, len(index), RATINGS_AT_ONCE):  # NumPy makes 64 bits of what it indexes by
        used[index[begin : begin + RATINGS_AT_ONCE]] = True
    return jnp.where(jnp.asarray(used)[:, None], table, 0.0)


def _pmf_like(config: pmf.Config) -> Any:
    return jax.eval_shape(lambda: pmf.init(jax.random.key(0), config))


def _pmf_trained(params: pmf.Params, config: pmf.Config, audience: Audience) -> Expected:
    return _pairwise(pmf.predict, params, config)


def _pmf_folded(
    params: pmf.Params, config: pmf.Config, audience: Audience, decay: Mapping[str, float]
) -> Expected:
    U, b = als.fold_in_users(audience.ratings, audience.number, params, config, _held(decay))
    return _pmf_trained(params._replace(U=U, b=b), config, audience)


def _pmf_grown(
    params: pmf.Params,
    config: pmf.Config,
    place: NDArray[np.int32],
    ratings: Ratings,
    number: int,
    decay: Mapping[str, float],
) -> tuple[pmf.Params, pmf.Config]:
    """Items without ratings are at zeros on both sides, so that their sum has the old ones and the new."""
    V, c = als.fold_in_items(ratings, number, params, config, _held(decay))
    grown = params._replace(V=V.at[place].add(params.V), c=c.at[place].add(params.c))
    return grown, replace(config, num_items=number)


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
    sets = cpmf.make_rated(*audience.identities, config=config)
    return _pmf_trained(cpmf.as_pmf(params, sets), config, audience)


def _cpmf_folded(
    params: cpmf.Params, config: cpmf.Config, audience: Audience, decay: Mapping[str, float]
) -> Expected:
    """With μ known, what it leaves of the ratings is PMF's to fit: by offsets and biases of the new users."""
    own = replace(config, num_users=audience.number)
    sets = cpmf.make_rated(*audience.identities, config=own)
    means = cpmf.conditions(params.W, sets)
    known = audience.ratings
    expected = np.sum(np.asarray(means)[known.user] * np.asarray(params.V)[known.item], axis=1)
    rest = known._replace(stars=(known.stars - expected).astype(np.float32))
    held = _held({name: decay.get(name, decay.get("*", 0.0)) for name in ("Y", "V", "b", "c")})
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


def _rbm_expected(params: Any, config: rbm.Config, audience: Audience, exact: bool = False) -> Expected:
    module: Any = crbm if isinstance(params, crbm.Params) else rbm
    rated = audience.identities if module is crbm else None
    known = vectors.make_data(audience.ratings, audience.number, _scale(config), rated=rated)
    return lambda user, item: rbm.expected(module.predict(params, known, user, item, config, exact), config)


_rbm_exact = functools.partial(_rbm_expected, exact=True)


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
        _features, grown=_pmf_grown,
    )  # fmt: skip


KINDS: dict[str, Kind] = {
    "user-bias": _bias("a bias for each user", "user-bias"),
    "item-bias": _bias("a bias for each item (the thesis' movie-bias)", "item-bias"),
    "bias": _bias("a bias for each user and each item", "bias"),
    "svd": _pmf("online SVD: PMF without priors and biases", pmf.SVD_RECIPES, {"biases": False}),
    "svd-bias": _pmf("online SVD with biases", pmf.SVD_RECIPES, {"biases": True}),
    "pmf": _pmf("probabilistic matrix factorization (thesis, 5.3.1)", pmf.RECIPES, {})._replace(
        alternating=als.fit
    ),
    "cpmf": Kind(
        "conditional PMF, which knows what a user rated (5.3.2)", cpmf.Config, cpmf.RECIPES, {},
        cpmf.Params._fields, _cpmf_setting, _cpmf_like, _cpmf_trained, _cpmf_folded, _features, True,
    ),
    "rbm": Kind(
        "the restricted Boltzmann machine over ratings (5.2.1)", rbm.Config, rbm.RECIPES, {}, rbm.Params._fields,
        _rbm_setting, _rbm_like, _rbm_expected, _rbm_folded, _rbm_items, exact=_rbm_exact,
    ),
    "crbm": Kind(
        "conditional RBM, which knows what a user rated (5.2.2)", rbm.Config, crbm.RECIPES, {},
        crbm.Params._fields, _crbm_setting, _crbm_like, _rbm_expected, _rbm_folded, _rbm_items, True, _rbm_exact,
    ),
}  # fmt: skip
