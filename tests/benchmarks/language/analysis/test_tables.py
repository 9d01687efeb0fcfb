"""The analyses through their own command at the smallest scale, against loops over the models' predictions."""

import json
import math
import re
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

import jaxlm
from benchmarks.core import record
from benchmarks.language.analysis import contexts, embedding
from benchmarks.language.analysis.tables import FLAT, LEARNED, NEURAL, RANDOM, TABLES
from benchmarks.language.store import LanguageStore, Spec
from jaxlm.tasks.frequency import equal_mass_bins

pytestmark = pytest.mark.extended

PAIRS = {"table-3.3": NEURAL, "table-3.4": NEURAL, "table-4.10": FLAT, "table-4.11": RANDOM, "table-4.12": FLAT}
PICTURES = ("figure-3.3", "figure-3.4", "figure-4.1", "figure-4.2")
ROWS = {
    "figure-3.2": 8, **dict.fromkeys(PAIRS, 10), "table-3.5": 21, "table-3.6": 21, "table-3.7": 12, "table-3.8": 12,
    "table-3.9": 12, "figure-3.3": 1, "figure-3.4": 2, "figure-4.1": 2, "figure-4.2": 2, "word-codes": 10,
}  # fmt: skip
UNJUDGED = {"table-3.5", "table-3.7", "table-3.8", "table-3.9", "figure-3.3"}


@pytest.fixture(scope="module")
def place(shared_place):
    return shared_place("language-models")  # most of them are those of the tables


@pytest.fixture(scope="module")
def results(place) -> dict[str, dict]:
    """Make all analyses, by one command."""
    found, _, _ = place.tables(*TABLES)
    return found


@pytest.fixture(scope="module")
def store(place, results) -> LanguageStore:
    return LanguageStore.open("tiny", None, None, "tuned", place.work)


def _means(row: dict) -> dict[str, float]:
    return {name: cell["mean"] for name, cell in row["cells"].items() if "mean" in cell}


def _texts(row: dict) -> dict[str, str]:
    return {name: cell["text"] for name, cell in row["cells"].items() if "text" in cell}


def test_every_analysis_is_recorded(place, results) -> None:
    assert set(results) == set(TABLES) == set(ROWS)
    for name, rows in ROWS.items():
        path = place.out / f"{name}.planted.tiny.json"
        assert json.loads(path.read_text()) == results[name]
        assert results[name]["complete"]
        assert len(results[name]["rows"]) == rows
        page = path.with_suffix(".md").read_text()
        for row in results[name]["rows"]:
            for text in _texts(row).values():
                assert f"| `{text}` |" in page
    assert {name for name, result in results.items() if not result["verdicts"]} == UNJUDGED


@pytest.mark.parametrize("name", PAIRS)
def test_perplexities_of_bins_equal_loops_over_events(results, store, name: str) -> None:
    corpus, rows = store.corpus, results[name]["rows"]
    bins = equal_mass_bins(np.bincount(corpus.train, minlength=len(corpus.vocabulary)))
    by_last_word = name in ("table-3.4", "table-4.12")
    predictions = [store.get(spec).predictions("test") for spec in PAIRS[name].specs]
    events = defaultdict(list)
    for i, word in enumerate(corpus.test):
        last = corpus.test[i - 1] if i else corpus.vocabulary.eos
        events[bins[last if by_last_word else word]].append([log_probs[i] for log_probs in predictions])
    assert len(events) == 10, "no bin is empty"
    for number, row in enumerate(rows):
        found, log_probs = _means(row), np.array(events[number])
        first, second = (math.exp(-math.fsum(column) / len(column)) for column in log_probs.T)
        expected = {
            "words": np.count_nonzero(bins == number), "share": 100 * len(log_probs) / len(corpus.test),
            "first": first, "second": second, "ratio": first / second, "log_ratio": math.log(first / second),
        }  # fmt: skip
        assert found == pytest.approx(expected, rel=1e-9)
        assert set(row["thesis"]) == set(expected)
    # the perplexity of all is the weighted geometric mean (the thesis' footnote 2)
    for which, log_probs in zip(("first", "second"), predictions, strict=True):
        mean = sum(_means(row)["share"] / 100 * math.log(_means(row)[which]) for row in rows)
        assert mean == pytest.approx(-np.mean(log_probs), rel=1e-9)


def test_shares_of_predictions_equal_a_count(results, store) -> None:
    rows = results["figure-3.2"]["rows"]
    for which, spec in zip(("first", "second"), NEURAL.specs, strict=True):
        log_probs = store.get(spec).predictions("test")
        number, nats = Counter(), Counter()
        for log_p in log_probs:
            bin_ = next((i for i in range(7) if log_p > -(i + 1) * math.log(10)), 7)
            number[bin_] += 1
            nats[bin_] -= log_p
        assert len(number) >= 3
        for i, row in enumerate(rows):
            found = _means(row)
            assert found[f"{which} predictions"] == pytest.approx(number[i] / len(log_probs))
            assert found[f"{which} nats"] == pytest.approx(nats[i] / -log_probs.sum())
            assert row["label"][0] == str(i + 1)


@pytest.mark.parametrize(("name", "sign"), [("table-3.5", 1), ("table-3.6", -1)])
def test_events_that_differ_most_are_of_the_test(results, store, name: str, sign: int) -> None:
    first, second = (store.get(spec).predictions("test") for spec in NEURAL.specs)
    ahead = np.sort(sign * (first - second))[::-1]
    words, test = store.corpus.vocabulary.words, store.corpus.test
    padded = [*["<eos>"] * 5, *(words[i] for i in test)]
    train = " ".join("<s> " + line for line in " ".join(words[i] for i in store.corpus.train).split("<eos>"))
    for rank, row in enumerate(results[name]["rows"]):
        found, text = _means(row), _texts(row)
        assert math.log(found["ratio"]) == pytest.approx(sign * ahead[rank], rel=1e-6)
        assert found["ratio"] == pytest.approx(found["first"] / found["second"])
        events = [
            i for i in range(len(test))
            if " ".join(padded[i : i + 5]) == text["context"] and padded[i + 5] == text["word"]
        ]  # fmt: skip
        assert any(first[i] == pytest.approx(math.log(found["first"]), rel=1e-6) for i in events)
        line = f"{text['context']} {text['word']}".split()
        if "<eos>" not in line:
            seen = int(found["seen"])
            assert seen == 1 or f" {' '.join(line[-seen:])} " in train
            assert seen == 6 or f" {' '.join(line[-seen - 1 :])} " not in train
        assert list(row["thesis"]) == ["ratio", "first", "second"]


def test_next_words_are_those_of_the_models_after_a_context_of_the_test(results, store) -> None:
    words, test = store.corpus.vocabulary.words, store.corpus.test
    text = " ".join(words[i] for i in test)
    train = " ".join(words[i] for i in store.corpus.train)
    models = [jaxlm.load(store.get(spec).directory) for spec in NEURAL.specs]
    of_truth = []
    for name in ("table-3.7", "table-3.8", "table-3.9"):
        context, truth, *ranks = results[name]["rows"]
        given = _texts(context)["first_word"]
        assert len(given.split()) == contexts.CONTEXT
        assert "<eos>" not in given
        assert given not in train
        follows = _texts(truth)
        assert follows["first_word"] == follows["second_word"]
        assert f" {given} {follows['first_word']} " in text
        for which, model in zip(("first", "second"), models, strict=True):
            p = np.exp(model.log_prob(given))
            assert _means(truth)[which] == pytest.approx(p[words.index(follows["first_word"])])
            expected = sorted(range(len(words)), key=lambda i, p=p: -p[i])[:10]
            assert [_texts(row)[f"{which}_word"] for row in ranks] == [words[i] for i in expected]
            assert [_means(row)[which] for row in ranks] == pytest.approx(p[expected])
            event = text[: text.index(f"{given} {follows['first_word']} ")].count(" ") + contexts.CONTEXT
            scored = store.get(NEURAL.specs[which == "second"]).predictions("test")[event]
            assert _means(truth)[which] == pytest.approx(math.exp(scored), rel=1e-4), "as in the evaluation"
        of_truth.append(_means(truth)["first"])
    assert of_truth == sorted(of_truth), "the first is the least probable of the three"


def test_codes_of_words_equal_leaves_of_the_trees(results, store) -> None:
    corpus = store.corpus
    bins = equal_mass_bins(np.bincount(corpus.train, minlength=len(corpus.vocabulary)))
    for title, tree in LEARNED.items():
        children = store.tree(Spec("hlbl", tree=tree)).children
        leaves = Counter(int(~child) for child in children.ravel() if child < 0)
        for number, row in enumerate(results["word-codes"]["rows"]):
            codes = [leaves[word] for word in np.flatnonzero(bins == number)]
            assert row["cells"][title]["mean"] == pytest.approx(np.mean(codes))
    for number, row in enumerate(results["word-codes"]["rows"]):  # of the last tree
        most = [entry.split(" ") for entry in _texts(row)["most"].split(", ")]
        expected = sorted((leaves[word] for word in np.flatnonzero(bins == number)), reverse=True)[: len(most)]
        assert [int(count) for _, count in most] == expected
        assert all(leaves[corpus.vocabulary.ids[word]] == int(count) for word, count in most)


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_and_pages_of_vectors(place, results, store, name: str) -> None:
    row, path = results[name]["rows"][0], place.out / f"{name}.planted.tiny"
    drawn, counts = row["drawn"], store.corpus.word_counts()
    size = len(counts) // 2
    assert drawn["counts"] == [counts[store.corpus.vocabulary.ids[word]] for word in drawn["text"]]
    expected = sorted(counts, reverse=True)[:size] if row["label"][1] == embedding.FREQUENT else sorted(counts)[:size]
    assert sorted(drawn["counts"]) == sorted(expected)
    assert len(set(drawn["text"])) == len(drawn["x"]) == len(drawn["y"]) == size
    for column in ("agreed", "kept"):
        assert 0 < row["cells"][column]["mean"] <= 1
    # by chance it would be 10 / 29; words that are near one another stay so
    assert row["cells"]["kept"]["mean"] > 0.5
    png = path.with_name(f"{path.name}.png").read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = (int.from_bytes(png[i : i + 4], "big") for i in (16, 20))
    assert 400 < min(width, height) <= max(width, height)
    assert 1200 < max(width, height) < 1500
    assert 5_000 < len(png) < 300_000
    page = path.with_name(f"{path.name}.html").read_text()
    assert not re.search(r"(src|href)=|https?:|@import|fetch\(", page), "it needs no network"
    (data,) = re.findall(r"^const data = (.*);$", page, re.M)
    assert json.loads(data)["words"] == drawn["text"]
    assert json.loads(data)["x"] == drawn["x"]
    markdown = path.with_name(f"{path.name}.md").read_text()
    for suffix in ("png", "html"):
        assert f"]({path.name}.{suffix})" in markdown


def test_the_histogram_is_a_picture(place, results) -> None:
    png = (place.out / "figure-3.2.planted.tiny.png").read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert 10_000 < len(png) < 300_000


def test_words_near_one_another_are_not_written_over_one_another() -> None:
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.1], [3.9, 0.0], [10.0, 10.0]])
    words = ["three", "hidden", "below", "beside", "alone"]
    shown = embedding.labelled(points, words, 0.7, 1.0)
    assert shown == [0, 2, 3, 4]
    boxes = [(x - 0.35 * len(words[i]), x + 0.35 * len(words[i]), y) for i in shown for x, y in [points[i]]]
    for k, (low, high, y) in enumerate(boxes):
        assert not any(low < b and a < high and abs(y - z) < 1.0 for a, b, z in boxes[:k])
    assert embedding.labelled(points, [], 0.7, 1.0) == [], "text that may not be published"
    assert embedding.labelled(points[:2], ["", "b"], 0.7, 1.0) == [1], "what the font cannot write"
    assert embedding.written(["tea", "Élodie", "\u6226\u5834"]) == ["tea", "Élodie", ""]


def test_a_page_without_words_numbers_them(tmp_path: Path) -> None:
    from benchmarks.language.analysis import explore

    row = {"drawn": {"x": [0.0, 1.0], "y": [2.0, 0.5], "counts": [7, 3], "text": ["</script>", "the"]}}
    result = {"table": "figure-3.3", "title": "t", "data": {"name": "d"}, "scale": "s", "recipe": "r", "rows": [row]}
    for shown, words in ((result, ["</script>", "the"]), (record.without_text(result | {"rows": [row | {"cells": {}}]}),
                                                          ["#1", "#2"])):  # fmt: skip
        explore.write(shown, tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text()
        (data,) = re.findall(r"^const data = (.*);$", page, re.M)
        assert json.loads(data)["words"] == words
        assert page.count("</script>") == 1, "words do not end the script"
