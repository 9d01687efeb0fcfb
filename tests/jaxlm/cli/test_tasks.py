"""The commands for tasks: `jaxlm analogies | similarity | complete | rescore`, against the models' own numbers."""

import json
from itertools import permutations

import numpy as np
import pytest
import scipy.stats

import jaxlm
from jaxlm.cli.main import main
from jaxlm.tasks.analogies import answer
from jaxlm.tasks.intervals import of_share

ANALOGIES = ": verbs\nhe saw she took\nit tea bread time\nhe saw she nothing\n\n: gram1-nouns\ntea time bread it\n"
PAIRS = "Word 1,Word 2,Score\nhe,she,9\nsaw,took,7.5\ntea,bread,6\nhe,tea,1\nsaw,it,0.5\nhe,absent,3\n"
QUESTIONS = (
    'id,question,a),b),c)\n1,The _____ saw it,she,it,tea\n2,"The he _____ bread",liked,nobody,never\n'
    "3,The they took _____,time,saw,absent\n4,The _____ broke tea,took,he,bread\n"
)
ANSWERS = "id,answer\n1,a\n2,a\n3,c\n4,b\n"
NBEST = """utterance\trank\tacoustic\tlm\tnwords\thypothesis
u1\t1\t-101\t-6\t4\tThe he saw [laugh] tea
u1\t2\t-100\t-9\t4\tThe tea saw he
u1\t3\t-104\t-7\t3\tThe he saw
u2\t2\t-50\t-3\t4\tThe she liked bread
u2\t1\t-49\t-5\t4\tThe she tea bread
"""
REFERENCES = "u2 The she liked bread\nu1 The he saw tea\nu3 The\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tasks")
    for name, text in {
        "analogies.txt": ANALOGIES, "pairs.csv": PAIRS, "questions.csv": QUESTIONS, "answers.csv": ANSWERS,
        "nbest.tsv": NBEST, "references.txt": REFERENCES, "noise.txt": "[laugh]\n",
    }.items():  # fmt: skip
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def call_json(call):
    """Return a function that runs a command with --json: the last line of its standard output."""

    def run(command, directory, *argv):
        found = json.loads(call(command, directory, *argv, "--json").splitlines()[-1])
        first = {"command": command, "directory": str(directory), "model": jaxlm.load(directory).name}
        assert {name: found[name] for name in first} == first
        return found

    return run


@pytest.fixture
def complaint(capsys):
    """Run a command line that must fail as a user's mistake; its one line."""

    def run(*argv):
        assert main([str(argument) for argument in argv]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1
        return err

    return run


def shout(place, tmp_path, name):
    """Write a copy of a file in upper case."""
    (tmp_path / name).write_text((place / name).read_text().upper())
    return tmp_path / name


@pytest.mark.parametrize("kind", ["lbl", "hlbl"])
def test_analogies_are_answered_by_the_models_vectors(place, files, call, call_json, kind):
    model = jaxlm.load(place / kind)
    words = [word for word in model.vocabulary.words if not word.startswith("<")]
    R = model.vectors()[[model.vocabulary.ids[word] for word in words]]
    found = call_json("analogies", place / kind, files / "analogies.txt")
    asked = [line.split() for line in ANALOGIES.splitlines() if line and line[0] != ":" and "nothing" not in line]
    ids = np.array([[words.index(word) for word in row] for row in asked])
    right = (answer(R, ids[:, :3]) == ids[:, 3]).tolist()
    assert found["sections"] == [
        {"name": "verbs", "accuracy": sum(right[:2]) / 2, "right": sum(right[:2]), "asked": 2, "left_out": 1},
        {"name": "gram1-nouns", "accuracy": float(right[2]), "right": int(right[2]), "asked": 1, "left_out": 0},
    ]
    assert (found["semantic"]["asked"], found["syntactic"]["asked"], found["all"]["left_out"]) == (2, 1, 1)
    few = call_json("analogies", place / kind, files / "analogies.txt", "--most-frequent", 3)
    assert few["all"] == {"accuracy": None, "right": 0, "asked": 0, "left_out": 4}
    lines = call("analogies", place / kind, files / "analogies.txt").splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["verbs", "gram1-nouns", "semantic", "syntactic", "all"]


def test_words_are_lower_case_where_that_is_asked_for(place, files, call_json, tmp_path):
    analogies, pairs = shout(files, tmp_path, "analogies.txt"), shout(files, tmp_path, "pairs.csv")
    assert call_json("analogies", place / "lbl", analogies)["all"]["asked"] == 0
    assert call_json("analogies", place / "lbl", analogies, "--lower")["all"]["asked"] == 3
    assert call_json("similarity", place / "lbl", pairs)["spearman"] is None
    loud, plain = (
        call_json("similarity", place / "lbl", *argv) for argv in ([pairs, "--lower"], [files / "pairs.csv"])
    )
    assert loud["spearman"] == plain["spearman"]


def test_similarity_is_spearmans_correlation_of_cosines(place, files, call, call_json):
    found = call_json("similarity", place / "lbl", files / "pairs.csv")
    model = jaxlm.load(place / "lbl")
    R = model.vectors() / np.linalg.norm(model.vectors(), axis=1, keepdims=True)
    rows = [line.split(",") for line in PAIRS.splitlines()[1:-1]]
    cosines = [R[model.vocabulary.ids[a]] @ R[model.vocabulary.ids[b]] for a, b, _ in rows]
    expected = scipy.stats.spearmanr(cosines, [float(score) for *_, score in rows]).statistic
    assert found["spearman"] == pytest.approx(expected)
    assert (found["pairs"], found["left_out"]) == (5, 1)
    assert found["interval"][0] <= found["spearman"] <= found["interval"][1]
    assert f"Spearman  {expected:.3f} (" in call("similarity", place / "lbl", files / "pairs.csv")


def best_choices(model, weight=1.0, other=None):
    """Choose the letters with the highest log-probability, sentence by sentence."""
    letters = {}
    for line in QUESTIONS.replace('"', "").splitlines()[1:]:
        name, text, *choices = line.split(",")
        scores = [
            weight * model.score(sentence) + ((1 - weight) * other.score(sentence) if other else 0)
            for sentence in (text.replace("_____", choice) for choice in choices)
        ]
        letters[name] = "abc"[scores.index(max(scores))]
    return letters


@pytest.mark.parametrize("kind", ["kn", "lbl", "hlbl"])
def test_the_most_probable_sentence_is_chosen(place, files, call, call_json, kind):
    found = call_json("complete", place / kind, files / "questions.csv", "--answers", files / "answers.csv")
    assert found["choices"] == best_choices(jaxlm.load(place / kind))
    right = sum(found["choices"][name] == letter for name, letter in (row.split(",") for row in ANSWERS.split()[1:]))
    assert (found["right"], found["asked"], found["accuracy"]) == (right, 4, right / 4)
    assert found["interval"] == pytest.approx(of_share(right, 4))
    known = jaxlm.load(place / kind).vocabulary.ids
    assert found["unknown"] == [sum(word not in known for word in ("never", "absent"))]
    lines = call("complete", place / kind, files / "questions.csv").splitlines()
    assert lines == [f"{name},{letter}" for name, letter in found["choices"].items()]


def test_an_unknown_word_has_an_equal_share_of_the_words_left_out(call_json, tmp_path):
    """Of five words seen once: else the unknown choice would win, as `<unk>` is frequent."""
    (tmp_path / "train.txt").write_text("a b\na b\na c\na d\na e\na f\na g\n")
    (tmp_path / "q.csv").write_text("1,a _____,b,z\n")
    (tmp_path / "n.tsv").write_text(NBEST.splitlines()[0] + "\nu\t1\t0\t0\t2\ta z\nu\t2\t0\t0\t2\ta b\n")
    assert main(["train", "unigram", "--train", str(tmp_path / "train.txt"), "--out", str(tmp_path / "m")]) == 0
    model = jaxlm.load(tmp_path / "m")
    assert model.vocabulary.log_share_of_unknown == pytest.approx(-np.log(5))
    assert model.score("a z") > model.score("a b")
    assert call_json("complete", tmp_path / "m", tmp_path / "q.csv")["choices"] == {"1": "a"}
    found = call_json("rescore", tmp_path / "m", tmp_path / "n.tsv")
    assert found["hypotheses"] == {"u": "a b"}


def test_an_unknown_word_has_all_of_an_unk_that_stands_for_unknown_words(call, capsys, tmp_path):
    """It is noted: of the text, which has <unk> itself, no word is left out."""
    (tmp_path / "q.csv").write_text("1,a _____,b,z\n")
    for name, last in (("shared", "a c\na d\n"), ("whole", "a <unk>\na <unk>\n")):
        (tmp_path / "train.txt").write_text("a b\na b\n" + last)
        call("train", "unigram", "--train", tmp_path / "train.txt", "--out", tmp_path / name)
        capsys.readouterr()
        assert main(["complete", str(tmp_path / name), str(tmp_path / "q.csv")]) == 0
        said = capsys.readouterr().err
        assert "1 of 2 choices have a word" in said
        assert ("with all of its probability" in said) == (name == "whole")


def test_what_is_undefined_is_said_so(place, files, call, tmp_path):
    (tmp_path / "pairs.csv").write_text("he,she,9\nsaw,took,7.5\nhe,absent,1\n")
    said = call("similarity", place / "lbl", tmp_path / "pairs.csv")
    assert said.startswith("Spearman  undefined (there are fewer than 3 pairs)\n")
    assert "1 (a word is not in the vocabulary, or has no vector)" in said
    (tmp_path / "pairs.csv").write_text("he,she,9\nsaw,took,9\nhe,tea,9\n")
    assert "undefined (all cosines or scores are equal)" in call("similarity", place / "lbl", tmp_path / "pairs.csv")
    (tmp_path / "references.txt").write_text("u1\nu2\n")
    said = call("rescore", place / "kn", files / "nbest.tsv", "--references", tmp_path / "references.txt")
    assert "rescored    undefined, " in said
    assert "difference  undefined, of 0 words" in said
    assert "nan" not in said


def test_a_single_question_fits_no_weight(place, files, complaint, tmp_path):
    (tmp_path / "q.csv").write_text("\n".join(QUESTIONS.splitlines()[:2]) + "\n")
    (tmp_path / "a.csv").write_text("\n".join(ANSWERS.splitlines()[:2]) + "\n")
    more = ("--mix", place / "kn", "--answers", tmp_path / "a.csv", "--fit-weight")
    assert "one question leaves none" in complaint("complete", place / "lbl", tmp_path / "q.csv", *more)


def test_a_single_list_fits_no_weights(place, files, complaint, tmp_path):
    (tmp_path / "n.tsv").write_text("\n".join(NBEST.splitlines()[:4]) + "\n")
    more = ("--references", files / "references.txt", "--fit-weights")
    assert "one list leaves none to fit its weights to" in complaint("rescore", place / "kn", tmp_path / "n.tsv", *more)


def test_words_that_training_never_saw_have_no_vector(files, call_json, complaint, tmp_path):
    (tmp_path / "train.txt").write_text("he saw she took it\nhe took tea\n" * 20)
    (tmp_path / "vocab.txt").write_text("<eos>\nhe\nsaw\nshe\ntook\ntea\nbread\nit\n")
    argv = ["train", "skipgram", "--train", tmp_path / "train.txt", "--vocab", tmp_path / "vocab.txt"]
    assert main([*map(str, argv), "--out", str(tmp_path / "m"), "--epochs", "1", "--quiet"]) == 0
    found = call_json("similarity", tmp_path / "m", files / "pairs.csv")
    assert (found["pairs"], found["left_out"]) == (4, 2)  # bread and absent
    assert call_json("analogies", tmp_path / "m", files / "analogies.txt")["all"]["asked"] == 1
    assert "'bread' has no vector" in complaint("neighbours", tmp_path / "m", "bread")


def test_sentences_are_mixed_by_a_weighted_sum_of_log_probabilities(place, files, call_json):
    command = ["complete", place / "lbl", files / "questions.csv", "--mix", place / "kn"]
    first, second = jaxlm.load(place / "lbl"), jaxlm.load(place / "kn")
    assert call_json(*command)["weights"] == [0.5]
    for weight in (0.0, 0.3):
        found = call_json(*command, "--weight", weight, "--answers", files / "answers.csv")
        assert found["choices"] == best_choices(first, weight, second)
        assert len(found["alone"]) == len(found["unknown"]) == 2
    fitted = call_json(*command, "--fit-weight", "--answers", files / "answers.csv")
    assert len(fitted["weights"]) == 2
    assert set(fitted["choices"]) == {"1", "2", "3", "4"}


def test_word_vectors_fill_gaps_alone_or_beside_another_model(place, files, call_json, tmp_path):
    """Words stand beside words of their own group only."""
    groups = (["he", "saw", "tea"], ["she", "took", "bread"])
    text = "".join(f"{' '.join(line)}\n" for group in groups for line in permutations(group)) * 30
    (tmp_path / "train.txt").write_text(text)
    (tmp_path / "questions.csv").write_text("1,He _____ tea,took,saw\n2,she took _____,bread,tea\n3,_____ saw,he,she\n")
    (tmp_path / "answers.csv").write_text("1,b\n2,a\n3,a\n")
    argv = ["train", "skipgram", "--train", tmp_path / "train.txt", "--out", tmp_path / "m", "--num-features", "8"]
    assert main([*map(str, argv), "--lower", "--epochs", "40", "--batch-size", "2", "--quiet"]) == 0
    answers = ["--answers", tmp_path / "answers.csv"]
    found = call_json("complete", tmp_path / "m", tmp_path / "questions.csv", *answers)
    assert (found["choices"], found["right"]) == ({"1": "b", "2": "a", "3": "a"}, 3)
    argv = [tmp_path / "questions.csv", *answers, "--mix", tmp_path / "m", "--weight", "0"]
    assert call_json("complete", place / "kn", *argv)["right"] == 3


def test_the_last_period_is_a_word_where_the_model_has_it(place, capsys, call, call_json, tmp_path):
    for name, end in (("apart", " ."), ("without", "")):
        text = "".join(f"{line}{end}\n" for line in (place / "train.txt").read_text().splitlines())
        (tmp_path / f"{name}.txt").write_text(text)
        call("train", "kn", "--train", tmp_path / f"{name}.txt", "--order", 3, "--out", tmp_path / name)
    model = jaxlm.load(tmp_path / "apart")
    words = sorted(["it", "tea", "bread"], key=lambda word: model.score(f"The he saw {word} ."))
    (tmp_path / "questions.csv").write_text(f"1,The he saw _____.,{','.join(words)}\n")
    assert call_json("complete", tmp_path / "apart", tmp_path / "questions.csv")["choices"] == {"1": "c"}
    # elsewhere `it.`, `tea.` and `bread.` are words, all of them unknown
    found = call_json("complete", tmp_path / "without", tmp_path / "questions.csv")
    assert (found["choices"], found["unknown"]) == ({"1": "a"}, [3])
    assert main(["complete", str(tmp_path / "without"), str(tmp_path / "questions.csv")]) == 0
    said = capsys.readouterr().err
    assert "3 of 3 choices have a word" in said
    assert "--punctuation separates marks from words" in said


def test_the_best_weighted_hypotheses_are_chosen(place, files, call, call_json):
    model = jaxlm.load(place / "kn")
    rows = [line.split("\t") for line in NBEST.splitlines()[1:]]
    for weights in ((1, 8, 0, 0), (1, 0, 0, 0), (0.5, 2, -3, 1.5)):
        expected = {}
        for name in ("u1", "u2"):
            listed = [row for row in rows if row[0] == name]
            scores = [
                weights[0] * float(acoustic) + weights[1] * model.score(text.replace("[laugh] ", ""))
                + weights[2] * float(words) + weights[3] * float(lm)
                for _, _, acoustic, lm, words, text in listed
            ]  # fmt: skip
            expected[name] = listed[scores.index(max(scores))][-1]
        options = ("--acoustic-scale", "--lm-weight", "--word-penalty", "--recogniser-weight")
        given = [argument for pair in zip(options, weights, strict=True) for argument in pair]
        command = ["rescore", place / "kn", files / "nbest.tsv", "--noise", files / "noise.txt", *given]
        assert call_json(*command)["hypotheses"] == expected
        lines = call(*command).splitlines()
        assert lines == [f"{name}\t{text}" for name, text in expected.items()]


@pytest.mark.parametrize("kind", ["kn", "lbl"])
def test_word_errors_are_counted_beside_the_first_and_the_best_hypotheses(place, files, call, call_json, kind):
    command = ["rescore", place / kind, files / "nbest.tsv", "--references", files / "references.txt"]
    noise = ["--noise", files / "noise.txt"]
    found = call_json(*command, *noise, "--lm-weight", 0)
    # by the acoustic score alone: "The tea saw he" (2 errors) and "The she tea bread" (1)
    assert (found["rescored"]["errors"], found["first"]["errors"], found["oracle"]["errors"]) == (3, 1, 0)
    assert (found["words"], found["rescored"]["rate"]) == (8, 3 / 8)
    assert call_json(*command, "--lm-weight", 0)["first"]["errors"] == 2  # with [laugh]
    fitted = call_json(*command, *noise, "--fit-weights")
    assert fitted["fitted"]
    assert fitted["weights"]["acoustic"] == 1
    assert fitted["weights"]["recogniser"] == 0
    by_recogniser = call_json(*command, *noise, "--fit-weights", "--lm-weight", 0, "--recogniser-weight", 2)
    assert by_recogniser["weights"]["model"] == 0
    said = call(*command, *noise)
    assert "oracle      0.0 % (0.0 to 0.0), 0 errors" in said
    assert "first       12.5 % (" in said


def test_only_models_that_fill_gaps_or_predict_words_complete(files, complaint, tmp_path):
    (tmp_path / "v.txt").write_text("2 2\nhe 1 0\nsaw 0 1\n")
    said = complaint("complete", tmp_path / "v.txt", files / "questions.csv")
    assert "complete needs next-word probabilities or words that fit a gap; word2vec has none" in said
    assert all(name in said for name in ("kn", "lbl", "skipgram", "ivlbl"))


MISTAKES = {
    "analogies {place}/kn {files}/analogies.txt": "analogies needs word vectors; kn has none",
    "similarity {place}/kn {files}/pairs.csv": "similarity needs word vectors; kn has none",
    "analogies {place}/lbl {files}/pairs.csv": "pairs.csv, line 1) - write `a b c d`",
    "analogies {place}/lbl {files}/nothing.txt": "there is no such file",
    "analogies {place}/lbl {files}/analogies.txt --most-frequent 0": "(--most-frequent)",
    "similarity {place}/lbl {files}/analogies.txt": "not two words and a score ({files}/analogies.txt, line 2)",
    "complete {place}/kn {files}/pairs.csv": "0 gaps, not 1 ({files}/pairs.csv, line 2)",
    "complete {place}/kn {files}/questions.csv --answers {files}/pairs.csv": "no question 'he' ({files}/pairs.csv",
    "complete {place}/kn {files}/questions.csv --weight 0.5": "there is no second model to mix",
    "complete {place}/kn {files}/questions.csv --mix {place}/lbl --weight 2": "(--weight)",
    "complete {place}/kn {files}/questions.csv --mix {place}/lbl --fit-weight": "name them: --answers FILE",
    "complete {place}/kn {files}/questions.csv --mix {files}": "no model here",
    "rescore {place}/kn {files}/references.txt": "no column 'utterance' ({files}/references.txt, line 1)",
    "rescore {place}/kn {files}/nbest.tsv --fit-weights": "name them: --references FILE",
    "rescore {place}/kn {files}/nbest.tsv --references {files}/references.txt --fit-weights --word-penalty 0":
        "--fit-weights fits it (--word-penalty)",
    "rescore {place}/kn {files}/nbest.tsv --references {files}/references.txt --fit-weights --lm-weight 0":
        "give one above 0, or leave out --fit-weights",
    "rescore {place}/kn {files}/nbest.tsv --references {files}/noise.txt": "no reference of u1 ({files}/noise.txt)",
    "rescore {place}/kn {files}/nbest.tsv --lm-weight -1": "(--lm-weight)",
}  # fmt: skip


@pytest.mark.parametrize("command", MISTAKES)
def test_a_mistake_is_one_line(place, files, complaint, command):
    said = complaint(*command.format(place=place, files=files).split())
    assert MISTAKES[command].format(place=place, files=files) in said


def test_words_that_a_closed_vocabulary_lacks_are_an_error_of_their_line(place, files, call, complaint, tmp_path):
    call("train", "kn", "--train", place / "train.txt", "--closed-vocabulary", "--out", tmp_path / "kn")
    said = complaint("complete", tmp_path / "kn", files / "questions.csv")
    assert f"unknown word 'never' ({files}/questions.csv, line 3)" in said
    said = complaint("rescore", tmp_path / "kn", files / "nbest.tsv")
    assert f"unknown word '[laugh]' ({files}/nbest.tsv, line 2)" in said


def test_the_line_end_is_no_word_of_a_sentence(place, complaint, tmp_path):
    (tmp_path / "questions.csv").write_text("1,The _____ saw,he,<eos>\n")
    said = complaint("complete", place / "kn", tmp_path / "questions.csv")
    assert f"the line-end marker <eos> as a word ({tmp_path}/questions.csv, line 1)" in said
    assert "the line-end marker <eos> as a word - remove it" in complaint("next", place / "kn", "The <eos> he")
