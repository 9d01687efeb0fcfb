"""Table 4 of Lauly et al. (2017): some of its rows by its command, at the smallest scale, and what its models are."""

import numpy as np
import pytest

from accuracy import assert_better_than_unigrams
from benchmarks.language import docnade, scales
from benchmarks.language.store import LanguageStore
from jaxlm.model_files import load

TINY = scales.SCALES["tiny"]


def specs_of(scale):
    """Return the models of the table's rows, of one seed."""
    return {" ".join(filter(None, row.label)): row.draws[0][0] for row in docnade.rows(scale, 1)}


@pytest.mark.extended
def test_rows_show_published_figures_and_documents_have_an_effect(shared_place):
    place = shared_place("language-models")
    for name in ("LM 5", "DocNADE-LM 5"):
        result, out, _ = place.table("docnade-table-4", "--rows", name)
    assert [row["label"] for row in result["rows"]] == [["LM", "5"], ["DocNADE-LM", "5"]]
    assert [row["thesis"] for row in result["rows"]] == [{}, {"perplexity": 109.22}]
    assert "109.2" in out
    words, store = scales.text("planted", TINY).test, LanguageStore.open("tiny", None, None, "tuned", place.work)
    for row, has_effect in zip(result["rows"], (False, True), strict=True):
        assert row["cells"]["minutes"]["mean"] > 0
        assert_better_than_unigrams(row["cells"]["perplexity"]["mean"], words, 0.05)
        model = load(store.get(specs_of(TINY)[" ".join(row["label"])]).directory)
        assert np.any(model.params.W) == has_effect
    assert {model["label"] for model in result["models"].values()} == {
        f"docnade-lm-group5{of}-seed1" for of in ("-W0", "")
    }
    assert "Lauly et al. 2017 (AP News)" in (place.out / "docnade-table-4.planted.tiny.md").read_text()


def test_a_figure_is_shown_for_the_model_that_it_is_published_for():
    """The n-gram network's is of one grouped sentence."""
    published = {" ".join(row.label): row.thesis for row in docnade.rows(TINY, 1)}
    assert published["LM 1"] == {"perplexity": 119.78}
    assert [label for label, figures in published.items() if not figures] == ["LM 5"]


@pytest.mark.parametrize("scale", ["smoke", "cpu", "full"])
def test_models_are_those_that_the_note_describes(scale, tmp_path):
    sized = scales.SCALES[scale]
    store = LanguageStore(scales.text("planted", TINY), sized, "tuned", tmp_path)
    made = {name: store._recipe(spec) for name, spec in specs_of(sized).items() if store.stepwise(spec)}
    size = {"num_features": sized.num_features, "num_hidden": 200}
    sampled = {"objective": "importance", "num_noise": 1000, "shared_noise": True}
    for lines, batch_size in {1: 50, 2: 25, 3: 17, 4: 12, 5: 10}.items():
        recipe, config = made[f"DocNADE-LM {lines}"]
        assert config.items() >= {**size, **sampled, "group_lines": lines}.items()
        assert recipe.batch_size == batch_size
        if lines in (1, 5):
            alone, same = made[f"LM {lines}"]
            assert same == config
            assert vars(alone) == {**vars(recipe), "rate": {**recipe.rate, "W": 0.0}}
