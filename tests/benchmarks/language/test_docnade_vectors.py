"""Tables 5 and 6 of Lauly et al. (2017): by their command at the smallest scale; their words, and their verdicts."""

import numpy as np
import pytest

from benchmarks.core.verdict import verdicts
from benchmarks.language import docnade, docnade_vectors, scales
from benchmarks.language.store import LanguageStore
from jaxlm.data.vocabulary import Vocabulary
from jaxlm.model_files import load
from jaxlm.tasks.neighbours import nearest

TINY = scales.SCALES["tiny"]
NAMES = ("docnade-table-5", "docnade-table-6")


def test_the_nearest_words_are_those_of_each_part_of_the_model_of_table_4(shared_place):
    place = shared_place("language-models")
    results, *_ = place.tables(*NAMES)
    (spec,) = next(row.draws[0] for row in docnade.rows(TINY, 1) if row.label == ("DocNADE-LM", "5"))
    store = LanguageStore.open("tiny", None, None, "tuned", place.work)
    one, other = (load(store.get(spec.with_seed(seed)).directory) for seed in (1, 2))
    for result in results.values():
        assert result["models"].keys() == {store.directory(spec.with_seed(seed)).name for seed in (1, 2)}
    words = one.vocabulary.words

    def near(table, word):
        units = np.asarray(table) / np.linalg.norm(table, axis=1, keepdims=True)
        order = np.argsort(-units @ units[one.vocabulary.ids[word]], kind="stable")
        return {words[i] for i in order[:6]} - {word}

    tables = {"docnade-table-5": lambda p: (p.W, p.R), "docnade-table-6": lambda p: (p.R, p.W)}
    for name, parts in tables.items():
        mean, *shown = [row["cells"] for row in results[name]["rows"]]
        assert len(shown) == len({cells["word"]["text"] for cells in shown}) == 7
        assert not {"<eos>", "<unk>"} & {cells["word"]["text"] for cells in shown}
        (ours, of_part), (of_seed, _) = parts(one.params), parts(other.params)
        for cells in shown:
            word = cells["word"]["text"]
            found = near(ours, word)
            assert set(cells["nearest"]["text"].split()) == found
            assert cells["shared"]["mean"] == pytest.approx(len(found & near(of_part, word)) / 5)
            assert "published" not in cells, "the planted words are not those of the publication"
        every = [word for word in words if word != "<eos>"]
        for column, table in (("shared", of_part), ("agreed", of_seed)):
            expected = np.mean([len(near(ours, word) & near(table, word)) / 5 for word in every])
            assert mean[column]["mean"] == pytest.approx(expected)


def test_published_words_are_shown_beside_ours_where_the_text_has_the_word(tmp_path, monkeypatch):
    corpus = scales.text("planted", TINY)
    names = list(corpus.vocabulary.words)
    names[9], names[4] = "israel", "book"
    store = LanguageStore(corpus._replace(vocabulary=Vocabulary(tuple(names))), TINY, "tuned", tmp_path)
    assert docnade_vectors.chosen(store.corpus)[:2] == [9, 4]
    assert corpus.vocabulary.eos not in docnade_vectors.chosen(store.corpus)
    monkeypatch.setattr(
        docnade_vectors, "near", lambda store, spec, part, words: np.tile(np.arange(5), (len(words), 1))
    )
    table = docnade_vectors.TABLES["docnade-table-6"]
    of_israel, of_book, other = (row.measure(store, row.draws[0], "test") for row in table.rows(TINY, 1)[1:4])
    assert of_israel["word"] == "israel"
    assert of_israel["published"] == "china russia cuba north_korea lebanon"
    assert of_book["published"] == "film service program movie information"
    assert "published" not in other
    assert other["nearest"] == " ".join(names[:5])


@pytest.mark.parametrize(
    ("weights", "answer"), [((1, 0, 0.2), "yes"), ((0, 1, 0.2), "no"), ((0, 0, 1), "unresolved")], ids=str
)
def test_parts_differ_if_by_more_than_seeds_do(monkeypatch, tmp_path, weights, answer):
    """Vectors are sums of what a part, a seed, and a part of a seed has for itself."""

    def near(store, spec, part, words):
        which = part.vectors is None
        keys = ([1, which], [2, spec.seed], [3, which, spec.seed])
        drawn = [np.random.default_rng(key).normal(size=(60, 8)) for key in keys]
        vectors = np.tensordot(weights, drawn, 1)
        return np.stack([nearest(vectors, word, docnade_vectors.NEAREST)[0] for word in words])

    monkeypatch.setattr(docnade_vectors, "near", near)
    store = LanguageStore(scales.text("planted", TINY), TINY, "tuned", tmp_path)
    for table in docnade_vectors.TABLES.values():
        for seeds, expected in ((6, answer), (3, "unresolved")):
            on_test, on_validation = (table.claims(store, table.rows(TINY, seeds), part) for part in ("test", "valid"))
            (verdict,) = verdicts(on_test, on_validation)
            assert verdict["answer"] == expected, verdict
