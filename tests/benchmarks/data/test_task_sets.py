"""Lists and questions of tasks: what is read as speech, and what is planted."""

import numpy as np
import pytest

from benchmarks.data import corpora, task_sets
from benchmarks.data import sets as data
from benchmarks.language import scales
from jaxfit.errors import UserError
from jaxlm.tasks import rescoring

CORPUS = scales.text("planted", scales.SCALES["tiny"])
PAGE = """\
*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*

"Well, I don't know," said he. "Do you?  Yes--or no."  It was late.

"He went on; "

It was 'quoted' here, and "this went on without an end
in its paragraph.

The end."""


def test_what_is_spoken_is_between_quotation_marks_and_has_no_punctuation() -> None:
    body = PAGE + " More." * 400
    assert corpora.novel(body, spoken=True).splitlines() == [
        "well i don't know", "do you", "yes or no", "he went on", "this went on without an end in its paragraph"
    ]  # fmt: skip


def test_a_planted_list_has_its_reference_and_is_in_the_order_of_the_acoustic_score() -> None:
    lists = task_sets.planted_lists(CORPUS)
    assert lists.size()["lists"] == len(lists.references) == len(lists.words) > 20
    for hypotheses, words, reference in zip(*lists[:3], strict=True):
        assert rescoring.word_errors(words, reference).min() == 0
        assert [h.rank for h in hypotheses] == list(range(1, len(words) + 1))
        assert np.all(np.diff([h.acoustic for h in hypotheses]) <= 0)
        assert [h.text.split() for h in hypotheses] == words


def test_a_planted_question_has_one_choice_that_is_of_the_text() -> None:
    asked = task_sets.planted_questions(CORPUS)
    words, eos = CORPUS.vocabulary.words, CORPUS.vocabulary.eos
    lines = " ".join("\n" if i == eos else words[i] for i in CORPUS.test).split("\n")
    known = {line.strip() for line in lines}
    assert len(asked.questions) > 20
    for question, answer in zip(asked.questions, asked.answers, strict=True):
        assert len(set(question.choices)) == task_sets.CHOICES
        assert question.sentences()[answer] in known
    assert len(set(asked.answers.tolist())) == task_sets.CHOICES


@pytest.mark.parametrize("name", ["nbest-switchboard", "msr-sentence-completion"])
def test_a_task_that_is_missing_says_where_it_is_published(tmp_path, name: str) -> None:
    with pytest.raises(UserError, match=rf"the data set {name} is not here .*get it from http"):
        data.load(name, tmp_path)
