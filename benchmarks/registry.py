"""All that the benchmarks can make or measure: suites, tables, models."""

from benchmarks.core.models import ListedModel
from benchmarks.core.suite import Suite
from benchmarks.language import neural
from benchmarks.language import tables as language
from benchmarks.ratings import tables as ratings

SUITES = (language.SUITE, ratings.SUITE)
TABLES = {**language.TABLES, **neural.TABLES, **ratings.TABLES}


def models() -> dict[str, tuple[Suite, ListedModel]]:
    """List the models of all registries."""
    return {name: (suite, model) for suite in SUITES for name, model in suite.store_class.models().items()}


def engine_models() -> dict[str, Suite]:
    """List the models that are trained step by step, which can be projected, measured, traced; by suite."""
    return {name: suite for name, (suite, model) in models().items() if model.by_engine}
