"""Questions of tasks, from files or synthetic: n-best lists, sentences with a gap, and relations of words."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jaxlm.data.corpus import Corpus
from jaxlm.tasks import analogies, rescoring, similarity
from jaxlm.tasks import completion as gaps
from jaxlm.tasks.rescoring import Hypothesis

Words = list[str]
LISTS, LENGTH = 40, 20  # planted lists, and hypotheses in each
QUESTIONS, CHOICES = 100, 5  # planted
SIMILARITY = {"wordsim": "WordSim-353", "simlex": "SimLex-999", "men": "MEN"}  # sets of pairs of words, and their names


class Lists(NamedTuple):
    """N-best lists.

    Attributes:
        hypotheses: of each utterance.
        words: of each hypothesis, without noises.
        references: the words that were said in each utterance, without noises.
        note, sha256: what they are.
    """

    hypotheses: list[list[Hypothesis]]
    words: list[list[Words]]
    references: list[Words]
    note: str
    sha256: str

    def size(self) -> dict[str, int]:
        """Count them."""
        return {
            "lists": len(self.hypotheses),
            "hypotheses": sum(map(len, self.hypotheses)),
            "reference words": sum(map(len, self.references)),
        }


class Questions(NamedTuple):
    """Sentences with a gap, the right choices, int64 [Q], and what they are."""

    questions: list[gaps.Question]
    answers: NDArray[np.int64]
    note: str
    sha256: str

    def size(self) -> dict[str, int]:
        """Count them."""
        return {"questions": len(self.questions)}


class WordTasks(NamedTuple):
    """Questions about words.

    Attributes:
        analogies: questions a b c d.
        similarity: pairs of words with people's scores, by the name of their set (SIMILARITY).
        note, sha256: what they are.
    """

    analogies: analogies.Questions
    similarity: dict[str, similarity.Pairs]
    note: str
    sha256: str

    def size(self) -> dict[str, int]:
        """Count them."""
        return {"analogies": len(self.analogies.words), "pairs": sum(len(p.words) for p in self.similarity.values())}


def nbest(paths: list[Path], sha256: str, note: str) -> Lists:
    """Read lists, references and noises."""
    lists, noise = rescoring.read(paths[0]), rescoring.read_noise(paths[2])
    said = rescoring.read_references(paths[1], lists)
    words = [[rescoring.without(h.text.split(), noise) for h in one] for one in lists.values()]
    references = [rescoring.without(said[utterance], noise) for utterance in lists]
    return Lists(list(lists.values()), words, references, note, sha256)


def completion(paths: list[Path], sha256: str, note: str) -> Questions:
    """Read questions and their answers."""
    questions = gaps.read(paths[0])
    return Questions(questions, gaps.read_answers(paths[1], questions), note, sha256)


def word_tasks(paths: list[Path], sha256: str, note: str) -> WordTasks:
    """Read analogies, then the sets of pairs."""
    pairs = {name: similarity.read(path) for name, path in zip(SIMILARITY, paths[1:], strict=True)}
    return WordTasks(analogies.read(paths[0]), pairs, note, sha256)


def planted_lists(corpus: Corpus) -> Lists:
    """Make lists from lines of a test text: the line, and hypotheses with some words replaced, by acoustic score.

    The acoustic score falls by one with each replaced word, plus Gaussian noise of standard deviation 3; the
    recogniser's own language model gives all words the same probability.
    """
    draws = np.random.default_rng(0)
    lines, known = _lines(corpus), _words(corpus)
    hypotheses, words = [], []
    for line in lines[:LISTS]:
        swapped = draws.random((LENGTH, len(line))) < 0.4
        swapped[0] = False
        made = [[str(draws.choice(known)) if swap else w for w, swap in zip(line, row, strict=True)] for row in swapped]
        acoustic = -swapped.sum(axis=1) + draws.normal(0, 3.0, LENGTH)
        order = np.argsort(-acoustic)
        level = -len(line) * float(np.log10(len(known)))
        words.append([made[i] for i in order])
        hypotheses.append([
            Hypothesis(rank, float(acoustic[i]), level, len(line), " ".join(made[i]), "planted")
            for rank, i in enumerate(order, 1)
        ])  # fmt: skip
    return Lists(hypotheses, words, lines[:LISTS], "planted lists", "")


def planted_questions(corpus: Corpus) -> Questions:
    """Make questions from lines of a test text: which of CHOICES words of the vocabulary was in the gap."""
    draws = np.random.default_rng(1)
    known = _words(corpus)
    questions, answers = [], []
    for number, line in enumerate(_lines(corpus)[:QUESTIONS]):
        gap = int(draws.integers(len(line)))
        others = [str(word) for word in draws.permutation(known) if word != line[gap]][: CHOICES - 1]
        right = int(draws.integers(CHOICES))
        text = " ".join([*line[:gap], gaps.GAP, *line[gap + 1 :]])
        choices = [*others[:right], line[gap], *others[right:]]
        questions.append(gaps.Question(str(number), text, choices, "planted"))
        answers.append(right)
    return Questions(questions, np.array(answers, np.int64), "planted questions", "")


def planted_word_tasks(corpus: Corpus) -> WordTasks:
    """Make questions of random words of a vocabulary; they have no right answers."""
    draws, known = np.random.default_rng(2), _words(corpus)
    asked = [[str(word) for word in draws.choice(known, 4, replace=False)] for _ in range(QUESTIONS)]
    questions = analogies.Questions(asked, [i % 2 for i in range(QUESTIONS)], ["planted", "gram-planted"])
    pairs = {
        name: similarity.Pairs([(a, b) for a, b, *_ in asked], draws.random(QUESTIONS))
        for name in SIMILARITY
    }  # fmt: skip
    return WordTasks(questions, pairs, "planted questions", "")


def _words(corpus: Corpus) -> Words:
    """Return the words of a planted text, without the marker of line ends."""
    return [word for word in corpus.vocabulary.words if word.isalnum()]


def _lines(corpus: Corpus) -> list[Words]:
    """Return the lines of the test text that are of three words or more."""
    eos, words = corpus.vocabulary.eos, corpus.vocabulary.words
    ends = np.flatnonzero(corpus.test == eos)
    lines = np.split(corpus.test, ends + 1)[: len(ends)]
    return [[words[i] for i in line[:-1]] for line in lines if len(line) > 3]
