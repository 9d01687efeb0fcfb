"""The table of sentence completion: on planted questions by its command, and how published ones are read."""

import numpy as np
import pytest

from benchmarks.data import sets
from benchmarks.data.task_sets import Questions
from benchmarks.language import scales
from benchmarks.language.store import Spec
from benchmarks.language.tables import kn
from benchmarks.language.tasks import completion
from benchmarks.language.tasks.completion import CompletionStore
from benchmarks.language.tasks.store import Given
from jaxfit.errors import UserError
from jaxlm.data.corpus import Corpus
from jaxlm.data.vocabulary import Vocabulary
from jaxlm.tasks import completion as gaps

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
    assert row.measure(store, row.draws[0], "test")["accuracy"].value == pytest.approx(100 * sum(right) / len(right))


def test_the_table_on_planted_questions(shared_place) -> None:
    place = shared_place("language-models")
    result, *_ = place.table("msr-completion")
    shares = {row["label"][0]: row["cells"]["accuracy"]["mean"] for row in result["rows"]}
    del shares["skip-gram"]  # it sees no order of words, on which the planted ones depend, nor their frequencies
    assert all(share > 40 for share in shares.values()), "of five choices, chance is 20"
    assert 0 <= result["rows"][-1]["cells"]["weight"]["mean"] <= 1
    assert "Mirowski 2014" in (place.out / "msr-completion.planted.tiny.md").read_text()
    assert len(result["verdicts"]) == 4, "targets are of the published questions"


def test_a_word_that_is_not_known_has_an_equal_share_of_those_that_are_left_out(tmp_path) -> None:
    words = Vocabulary.from_counts({"<eos>": 4, "a": 3, "b": 2, "c": 1, "d": 1, "e": 1}, min_count=2)
    lines = [["a", "b"], ["c", "a"], ["a", "d"], ["e", "b"]]
    text = np.array([words.ids.get(w, words.unk) for line in lines for w in [*line, "<eos>"]], np.int32)
    asked = Questions([gaps.Question("0", f"a {gaps.GAP}", ["b", "z"], "here")], np.array([0]), "", "")
    store = CompletionStore(Given(Corpus("made", text, text, text, words, "", ""), asked), TINY, "tuned", tmp_path)
    known, unknown = store.choice_scores(Spec("unigram"))[0]
    assert unknown - known == pytest.approx(np.log10((3 + 1) / 3 / (2 + 1)))  # one is added to each count
