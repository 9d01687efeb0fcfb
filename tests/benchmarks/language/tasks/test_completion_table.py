"""The table of sentence completion: on planted questions by its command, and how published ones are read."""

import pytest

from benchmarks.data import sets
from benchmarks.language import scales
from benchmarks.language.tables import kn
from benchmarks.language.tasks import completion
from benchmarks.language.tasks.completion import CompletionStore
from benchmarks.language.tasks.store import Given
from jaxfit.errors import UserError

TINY = completion.TASK_SCALES["tiny"]


def test_published_questions_are_read_as_the_novels_were(tmp_path) -> None:
    try:
        questions = sets.load("msr-sentence-completion")
    except UserError as missing:
        pytest.skip(str(missing))
    store = CompletionStore(Given(scales.text("planted", TINY), questions), TINY, "tuned", tmp_path)
    sentences = store.sentences()
    assert len(sentences) == 5 * 1040
    assert all(sentence == [word.lower() if word != "N" else word for word in sentence] for sentence in sentences)
    assert sum(sentence[-1] in (".", "?", "!", '"', "'") for sentence in sentences) > 0.95 * len(sentences)


def test_answers_are_those_of_the_most_probable_sentence(tmp_path) -> None:
    store = CompletionStore.open("tiny", None, None, "tuned", tmp_path)
    model = store._loaded(kn(3))
    right = []
    for question, answer in zip(store.task.questions, store.task.answers, strict=True):
        scores = [model.score(sentence) for sentence in question.sentences()]
        right.append(scores.index(max(scores)) == answer)
    (row,) = (row for row in completion.rows(TINY, 1) if row.label == ("KN3",))
    assert row.measure(store, row.draws[0])["accuracy"].value == pytest.approx(100 * sum(right) / len(right))


def test_the_table_on_planted_questions(shared_place) -> None:
    place = shared_place("language-models")
    result, *_ = place.table("msr-completion")
    shares = {row["label"][0]: row["cells"]["accuracy"]["mean"] for row in result["rows"]}
    assert all(share > 40 for share in shares.values()), "of five choices, chance is 20"
    assert 0 <= result["rows"][-1]["cells"]["weight"]["mean"] <= 1
    assert "Mirowski 2014" in (place.out / "msr-completion.planted.tiny.md").read_text()
    assert len(result["verdicts"]) == 3, "targets are of the published questions"
