"""The store of language models: trainings that were interrupted, and scores by blocks of lines."""

import signal

import numpy as np
import pytest

from benchmarks.core import record, training_times
from benchmarks.core import store as stores
from benchmarks.core.verdict import Scores
from benchmarks.language.parts import BLOCK, LEAST_PARTS, PARTS
from benchmarks.language.scales import SCALES, text
from benchmarks.language.slides import DECAYS, SAMPLED, neural_models
from benchmarks.language.store import LanguageStore, Spec
from benchmarks.language.tables import kn
from jaxfit import fit
from jaxfit.errors import Interrupted
from jaxfit.run_dir.journal import Journal
from jaxlm import models as registry
from jaxlm.data.vocabulary import Vocabulary

BY_SGD = [name for name in registry.names() if LanguageStore.by_engine(registry.get(name))]
SPEC = Spec("hlbl", tree=("adaptive", 0.0, 1))


@pytest.mark.parametrize("name", BY_SGD)
@pytest.mark.parametrize("scale", ["tiny", "smoke", "cpu"])
def test_the_size_of_a_scale_suits_the_recipe(name, scale, tmp_path) -> None:
    """The vectors of tied networks are as long as they have units, whatever features the scale has."""
    record = registry.get(name)
    store = LanguageStore.open("tiny", None, None, "tuned", tmp_path)
    store.scale = SCALES[scale]
    _, config = store._recipe(store.example(name, store.scale))
    kind, counts = record.structure_of(config), np.ones(50, np.int64)
    structure = None if kind is None else kind.stand_in(kind.choose(config, {}), len(counts), counts)
    record.configure(len(counts), structure, config, counts)


@pytest.mark.parametrize(
    ("recipe", "most", "objective"), [("tuned", 60, "softmax"), ("tuned", 59, "importance"), ("thesis", 59, "softmax")]
)
def test_many_words_are_trained_by_importance_sampling(recipe, most, objective, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("benchmarks.language.store.MANY_WORDS", most)
    store = LanguageStore.open("tiny", None, None, recipe, tmp_path)
    assert len(store.corpus.vocabulary) == 60
    spec = neural_models(store.scale)["LBL"]
    assert store.identity(spec)["config"].get("objective", "softmax") == objective
    changes = (*SAMPLED, *DECAYS["lbl"]) if objective == "importance" else ()
    assert store.identity(spec) == store.identity(Spec("lbl", recipe=changes))


def test_a_text_that_is_read_otherwise_is_trained_on_again(tmp_path) -> None:
    """From the same files, so that its sha256 is the same; what is recorded of the former stays, as of that code."""
    scale = SCALES["tiny"]
    corpus = text("planted", scale)

    def folder(**changes) -> str:
        return LanguageStore(corpus._replace(**changes), scale, "tuned", tmp_path).directory(kn(2)).name

    renamed = Vocabulary((*corpus.vocabulary.words[:-1], "other"))
    ids = {part: getattr(corpus, part)[::-1].copy() for part in ("train", "valid", "test")}
    found = [folder(), folder(vocabulary=renamed), *(folder(**{part: other}) for part, other in ids.items())]
    assert len(set(found)) == len(found)
    assert len({name.rpartition("-")[0] for name in found}) == 1
    assert folder(test=corpus.test.copy()) == found[0]


def test_what_trains_is_imported_before_code_may_be_edited(tmp_path, monkeypatch) -> None:
    imported: list[str] = []
    monkeypatch.setattr(stores, "import_module", imported.append)
    record.commit.cache_clear()
    LanguageStore.open("tiny", None, None, "tuned", tmp_path)
    assert {"jaxlm.models.lbl", "jaxlm.ngram.kneser_ney", "jaxlm.train_by_sgd"} <= set(imported)
    assert record.commit.cache_info().currsize == 1


def test_an_interrupted_training_over_a_learned_tree_goes_on(tmp_path, monkeypatch) -> None:
    whole, store = (LanguageStore.open("tiny", None, None, "tuned", tmp_path / name) for name in ("whole", "stopped"))
    store.get(SPEC.bootstrap())
    end_epoch = fit._end_epoch

    def stop_at_once(*arguments):
        signal.raise_signal(signal.SIGINT)
        return end_epoch(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(fit, "_end_epoch", stop_at_once)
        with pytest.raises(Interrupted):
            store.get(SPEC)
    assert not store.is_there(SPEC)
    assert len((store.directory(SPEC) / "journal.jsonl").read_text().splitlines()) == 1

    first = training_times.earlier(store.directory(SPEC))
    assert first > 0
    found, expected = store.get(SPEC), whole.get(SPEC)
    lines = Journal(found.directory).times()
    assert len(lines) == 2
    seconds = found.info["seconds"]
    assert seconds["train"] == pytest.approx(sum(line["train_seconds"] for line in lines))
    assert seconds["all"] > first + lines[-1]["train_seconds"]
    assert found.info["history"] == expected.info["history"]
    for part in ("valid", "test"):
        np.testing.assert_array_equal(found.predictions(part), expected.predictions(part))


@pytest.mark.parametrize("times", [1, 10, 100])
def test_parts_are_of_whole_lines_and_score_every_event(tmp_path, times) -> None:
    store = LanguageStore.open("tiny", None, None, "tuned", tmp_path)
    store.corpus = store.corpus._replace(test=np.tile(store.corpus.test, times))
    ends = store.corpus.test == store.corpus.vocabulary.eos
    log_probs = -np.random.default_rng(0).exponential(3.0, len(ends))
    scores = store.by_blocks(-log_probs, "test", seeded=True)
    assert scores.value == pytest.approx(np.exp(-np.mean(log_probs)), rel=1e-12)
    assert scores.count.sum() == len(ends)
    *lines, last = store.by_blocks(ends.astype(float), "test", seeded=True).total
    assert LEAST_PARTS <= len(scores.total) <= PARTS
    size = max(1, min(BLOCK, int(ends.sum()) // LEAST_PARTS))
    blocks = -(-int(ends.sum()) // size)
    assert set(lines) <= {blocks // PARTS * size, -(-blocks // PARTS) * size}
    assert 0 < last <= max(lines)


def test_a_text_of_long_articles_has_fewer_parts(tmp_path) -> None:
    """The same ones from scores that were kept of small blocks, or of as many parts as other texts have."""
    store, blocks = LanguageStore.open("tiny", None, None, "tuned", tmp_path), np.arange(436.0)
    scores = Scores(blocks, np.ones(436), np.exp)
    assert len(store.grouped(scores).total) == PARTS
    earlier, store = (
        store.grouped(scores),
        LanguageStore(store.corpus._replace(name="wikitext-2"), store.scale, "tuned", tmp_path),
    )
    assert store.resampled == "up to 25 parts of consecutive lines"
    assert len(store.grouped(scores).total) == 25
    np.testing.assert_array_equal(store.grouped(scores).total, store.grouped(earlier).total)
    assert store.grouped(scores).total.sum() == blocks.sum()


def test_scores_of_a_model_are_of_its_predictions(tmp_path) -> None:
    store = LanguageStore.open("tiny", None, None, "tuned", tmp_path)
    for spec, seeded in ((kn(2), False), (Spec("hlbl", tree=("random", 0.0, 1)), True)):
        for part in ("valid", "test"):
            scores = store.perplexity(spec, part)
            assert scores.value == pytest.approx(np.exp(-np.mean(store.get(spec).predictions(part))), rel=1e-12)
            assert scores.seeded == seeded
