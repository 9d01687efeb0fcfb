"""Table 4 of Lauly et al. (2017) through its command, at the smallest scale."""

import numpy as np
import pytest

from accuracy import assert_better_than_unigrams
from benchmarks.language import docnade, scales
from benchmarks.language.store import LanguageStore

TINY = scales.SCALES["tiny"]


@pytest.fixture(scope="module")
def made(shared_place):
    place = shared_place("language-models")
    return place, *place.table("docnade-table-4")


def test_table_4_shows_all_models_and_published_figures(made):
    place, result, out, _ = made
    assert result["complete"]
    found = {" ".join(filter(None, row["label"])): row for row in result["rows"]}
    assert list(found) == ["KN6", "LBL", "HLBL", "LSTM", "GRU", "LM", *(f"DocNADE-LM {n}" for n in range(1, 6))]
    assert found["DocNADE-LM 3"]["thesis"] == {"perplexity": 109.8}
    words = scales.text("planted", TINY).test
    for name, row in found.items():
        assert row["cells"]["minutes"]["mean"] > 0
        if name.startswith(("DocNADE-LM", "LBL", "HLBL", "KN6")):
            assert_better_than_unigrams(row["cells"]["perplexity"]["mean"], words, 0.05)
    assert "109.22" in out or "109.2" in out
    assert len(result["verdicts"]) == 4
    assert "Lauly et al. 2017 (AP News)" in (place.out / "docnade-table-4.planted.tiny.md").read_text()


def test_minibatches_of_all_groups_have_about_as_many_lines(made):
    _, result, *_ = made
    sizes = {
        model["config"]["group_lines"]: model["recipe"]["batch_size"]
        for model in result["models"].values() if model["label"].startswith("docnade-lm")
    }  # fmt: skip
    assert sizes == {1: 25, 2: 12, 3: 8, 4: 6, 5: 5}


@pytest.mark.parametrize("scale", ["smoke", "cpu", "full"])
def test_models_have_the_sizes_that_the_note_says(scale, tmp_path):
    sized = scales.SCALES[scale]
    store = LanguageStore(scales.text("planted", TINY), sized, "tuned", tmp_path)
    specs = {row.label[0]: row.draws[0][0] for row in docnade.rows(sized, 1)}
    alone, ours = (store._recipe(specs[name])[1] for name in (docnade.ALONE, docnade.DOCNADE))
    assert alone == {name: value for name, value in ours.items() if name != "group_lines"}
    assert np.all([config["num_features"] == sized.num_features for config in (alone, ours)])
