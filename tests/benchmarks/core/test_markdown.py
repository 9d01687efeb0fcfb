"""What pages say of where figures are from, and of their margins."""

import pytest

from benchmarks import registry
from benchmarks.core import markdown


@pytest.mark.parametrize(
    ("more", "title", "said"),
    [
        ({"section": "4.6"}, "thesis", "Mnih 2010, §4.6; the thesis' figures are of AP News."),
        ({"section": ""}, "thesis", "Not of the thesis."),
        ({"section": "", "published": "A 2012"}, "published", "Not of the thesis; published figures are of A 2012."),
    ],
)
def test_figures_beside_ours_are_named_by_where_they_are_from(more: dict, title: str, said: str) -> None:
    result = {"heads": ["model"], "columns": [{"name": "p", "title": "perplexity"}], "rows": [{"thesis": {"p": 1.0}}]}
    assert markdown.header(result | more) == ["model", "perplexity", title]
    assert markdown.source(more, "AP News") == said


def test_sections_of_the_thesis_have_numbers() -> None:
    assert [markdown.section(place) for place in ("4.6.3", "A 2012")] == ["§4.6.3", "A 2012"]


def test_margins_name_the_units_that_the_stores_scores_are_of() -> None:
    found = {store.__name__: store.resampled for store in registry.stores()}
    assert found == {
        "LanguageStore": "blocks of lines", "RatingStore": "users", "DocumentStore": "documents",
        "RescoringStore": "utterances", "CompletionStore": "questions", 
        "VectorStore": "questions with the same first pair, and pairs with the same first word",
    }  # fmt: skip
    assert "paired bootstrap over documents, and spread" in markdown.margins("documents")
