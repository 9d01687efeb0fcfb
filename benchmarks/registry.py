"""All that the benchmarks can make or measure: tables and models."""

from benchmarks.core.models import ListedModel
from benchmarks.core.store import Store
from benchmarks.language import tables as language
from benchmarks.language.store import LanguageStore
from benchmarks.ratings import tables as ratings
from benchmarks.ratings.store import RatingStore

STORES: tuple[type[Store], ...] = (LanguageStore, RatingStore)
TABLES = {**language.TABLES, **ratings.TABLES}


def models() -> dict[str, tuple[type[Store], ListedModel]]:
    """List the models of all registries."""
    return {name: (store, model) for store in STORES for name, model in store.models().items()}


def engine_models() -> dict[str, type[Store]]:
    """List the models that are trained step by step, which can be projected, measured, traced; by store."""
    return {name: store for name, (store, model) in models().items() if model.by_engine}
