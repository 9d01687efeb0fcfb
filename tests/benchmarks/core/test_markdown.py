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
        "LanguageStore": "up to 50 parts of consecutive lines", "RatingStore": "users", "DocumentStore": "documents",
        "RescoringStore": "utterances",
        "CompletionStore": "questions, for the perplexity over up to 50 parts of consecutive lines",
        "VectorStore": "questions with the same first pair, and pairs with the same first word",
    }  # fmt: skip
    assert "paired bootstrap over documents, and spread" in markdown.margins("documents")
    rows = [{"resampled": "users"}, {"resampled": markdown.FORMER}, {"resampled": "users"}, {}]
    assert markdown.units(rows) == "users or blocks of ten lines"
    assert "too narrow" in markdown.margins(markdown.units(rows))
    assert "too narrow" not in markdown.margins("users")


def test_of_many_comparisons_those_that_do_not_hold_are_written():
    def line(*holds: str) -> str:
        comparisons = [
            {"label": f"pair {i}", "value": 1.0, "interval": [0.5, 1.5], "holds": held, "percent": False}
            for i, held in enumerate(holds)
        ]
        test = {"seeds": 3, "answer": "no", "comparisons": comparisons}
        return markdown.verdict_line(
            {"answer": "no", "claim": "all hold", "section": "4.1", "test": test, "validation": None}
        )

    some = line(*["yes"] * 7, "no", "unresolved")
    assert some.endswith(
        "Test: pair 7 1.00 [0.50, 1.50] (no); pair 8 1.00 [0.50, 1.50] (unresolved); 7 of 9 comparisons hold."
    )
    assert line(*["yes"] * 9).count("pair") == 9
    assert line(*["yes"] * 7, "no").count("pair") == 8
