"""The table of rescored n-best lists: on planted lists by its command, and on the published ones without a model."""

import numpy as np
import pytest

from benchmarks.core.verdict import judge
from benchmarks.data import sets
from benchmarks.language import scales
from benchmarks.language.store import Spec
from benchmarks.language.tables import kn
from benchmarks.language.tasks import rescoring
from benchmarks.language.tasks.rescoring import RescoringStore
from benchmarks.language.tasks.store import Given
from jaxfit.errors import UserError
from jaxlm.tasks import rescoring as tasks

TINY = rescoring.TASK_SCALES["tiny"]


def _published(tmp_path) -> RescoringStore:
    try:
        lists = sets.load("nbest-switchboard")
    except UserError as missing:
        pytest.skip(str(missing))
    return RescoringStore(Given(scales.text("planted", TINY), lists), TINY, "tuned", tmp_path)


def test_errors_on_the_published_lists_without_a_model(tmp_path) -> None:
    """As counted by other programs on the same files."""
    store = _published(tmp_path)
    measured = {row.label[0]: row.measure(store, (), "test") for row in rescoring.rows(TINY, 1) if not row.specs()}
    errors = {name: round(found["errors"].value) for name, found in measured.items()}
    named = [rescoring.FIRST, rescoring.ACOUSTIC, rescoring.LM8, rescoring.ORACLE]
    assert [errors[name] for name in named] == [216, 288, 210, 128]
    assert errors[rescoring.ORACLE] < errors[rescoring.RECOGNISER] < errors[rescoring.ACOUSTIC]
    assert store.task.size() == {"lists": 65, "hypotheses": 81150, "reference words": 557}


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> RescoringStore:
    return RescoringStore.open("tiny", None, None, "tuned", tmp_path_factory.mktemp("work"))


def test_a_hypothesis_is_scored_as_a_sentence_of_its_own(store: RescoringStore) -> None:
    model = store._loaded(kn(3))
    table = store.tables(store.event_log_probs(kn(3)))[5]
    scores = [model.score(" ".join(words)) for words in store.task.words[5]]
    np.testing.assert_allclose(table[:, tasks.Features._fields.index("model")], scores, rtol=1e-9)


def test_a_mixture_has_the_weights_that_fit_validation_best(store: RescoringStore) -> None:
    models = [kn(3), Spec("unigram")]
    one, other = (np.exp(store.on_validation(spec)) for spec in models)
    grid = np.linspace(0, 1, 1001)
    best = grid[np.argmax([np.log(a * one + (1 - a) * other).sum() for a in grid])]
    assert best not in (0, 0.5, 1)
    P, Q = (np.exp(store.event_log_probs(spec)) for spec in models)
    np.testing.assert_allclose(np.exp(store.mixed(models)), best * P + (1 - best) * Q, rtol=5e-3)


def test_weights_are_fitted_without_the_list_that_they_choose_from(store: RescoringStore) -> None:
    """With what only the list itself could tell, errors are no fewer."""
    events = store.event_log_probs(kn(3))
    before = store.fitted(events, rescoring.BOTH, False).total
    flipped = RescoringStore(Given(store.corpus, store.task), TINY, "tuned", store.work)
    flipped.errors = [errors.copy() for errors in store.errors]
    flipped.errors[0] = flipped.errors[0].max() - flipped.errors[0]
    tables = store.tables(events)
    chosen, _ = tasks.leave_one_out(tables, flipped.errors, tasks.grid(rescoring.BOTH))
    assert store.errors[0][chosen[0]] == before[0]


def test_the_table_on_planted_lists(shared_place) -> None:
    place = shared_place("language-models")
    result, *_ = place.table("nbest-switchboard")
    errors = {row["label"][0]: row["cells"]["errors"]["mean"] for row in result["rows"]}
    assert result["complete"]
    assert errors["oracle"] == 0
    assert errors["KN5"] < 0.6 * errors["first hypothesis"]
    assert result["data"]["task"]["lists"] > 20
    page = (place.out / "nbest-switchboard.planted.tiny.md").read_text()
    assert "Not of the thesis." in page
    assert "(our target)" in page
    assert len(result["verdicts"]) == 4
    assert all(verdict["validation"] is None for verdict in result["verdicts"])


def test_claims_are_of_all_seeds(store: RescoringStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is better by construction is found to be better, one that is not is not."""
    truth = [errors.astype(float) for errors in store.errors]
    every = {words: i for i, words in enumerate(map(tuple, store.sentences()))}

    def events(spec: Spec):
        found = np.zeros(len(every))
        for words, errors in zip(store.task.words, truth, strict=True):
            for one, wrong in zip(words, errors, strict=True):
                found[every[tuple(one)]] = -wrong if spec.model == "lbl" else wrong
        return found

    monkeypatch.setattr(store, "event_log_probs", events)
    monkeypatch.setattr(store, "mixed", lambda specs: events(specs[-1]))
    monkeypatch.setattr(store, "log10", lambda found: found)
    rows = rescoring.rows(TINY, 3)
    found = {claim.text: judge(claim) for claim in rescoring.claims(store, rows, "test")}
    better = found["without the recogniser's own, the mixture of all has fewer errors than each model"]
    by_label = {one["label"]: one["holds"] for one in better["comparisons"]}
    assert by_label["mixture of all and KN5"] == "yes"
    assert by_label["mixture of all and LBL"] != "yes"
    assert better["seeds"] == 3
