"""All that the benchmarks can make or measure: tables and models."""

from benchmarks.core.store import Store
from benchmarks.documents import orderings, retrieval, words
from benchmarks.documents import tables as documents
from benchmarks.language import docnade, docnade_vectors, factored, lbl_features, slides, tree_ablations
from benchmarks.language import reasons as reasons_of_texts
from benchmarks.language import tables as language
from benchmarks.language.analysis import tables as analysis
from benchmarks.language.store import LanguageStore
from benchmarks.language.tasks import completion, embeddings, rescoring
from benchmarks.ratings import rankings
from benchmarks.ratings import reasons as reasons_of_ratings
from benchmarks.ratings import tables as ratings
from benchmarks.ratings.store import RatingStore
from jaxfit.registry import Record

STORES: tuple[type[Store], ...] = (LanguageStore, RatingStore)
TASKS = {table.name: table for table in (rescoring.TABLE, completion.TABLE, embeddings.TABLE)}
TABLES = {
    **factored.TABLES, **language.TABLES, tree_ablations.TABLE.name: tree_ablations.TABLE,
    lbl_features.TABLE.name: lbl_features.TABLE,
    **analysis.TABLES, **reasons_of_texts.TABLES, **slides.TABLES, **TASKS,
    **documents.TABLES, **words.TABLES, **docnade.TABLES, **docnade_vectors.TABLES,
    **{table.name: table for table in (orderings.TABLE, retrieval.TABLE)}, **ratings.TABLES,
    **reasons_of_ratings.TABLES, rankings.TABLE.name: rankings.TABLE,
}  # fmt: skip


def stores() -> list[type[Store]]:
    """List all kinds of stores: those of the registries' models, and of tables."""
    return list(dict.fromkeys([*STORES, *(table.store for table in TABLES.values())]))


def kept() -> list[str]:
    """List the tables that keep each seed's scores beside the record."""
    return [name for name, table in TABLES.items() if table.kept]


def models() -> dict[str, tuple[type[Store], Record]]:
    """List the models of all registries by name, with the store that trains each."""
    return {name: (store, store.registered.get(name)) for store in STORES for name in store.registered.names()}


def engine_models() -> dict[str, type[Store]]:
    """Return the store of each model that is trained step by step; these can be projected, measured and traced."""
    return {name: store for name, (store, model) in models().items() if store.by_engine(model)}
