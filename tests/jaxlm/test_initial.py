"""Training that begins from another model's parameters."""

import json

import jax
import numpy as np
import pytest

import jaxlm
from jaxfit.recipe import named_arrays
from jaxlm.cli.main import main
from jaxlm.data import user_text
from jaxlm.data.documents.reading import from_files as of_files
from jaxlm.initial import begin_from
from jaxlm.trees import file as tree_file
from jaxlm.trees.build import build
from jaxlm.trees.paths import Tree
from small_models import SMALL, write_text

FRBM = [*SMALL, "--num-hidden", "8"]
FEW = [*SMALL[:2], "--epochs", "2"]
SIZES = ("num_features", "context_size", "num_hidden")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("initial")
    text = write_text(folder / "text.txt", seed=1)
    assert main(["train", "frbm", "--train", text, "--out", str(folder / "frbm"), *FRBM]) == 0
    return folder, text


def test_tfrbm_begins_where_the_frbm_is(trained, capsys):
    folder, text = trained
    begin = ["train", "tfrbm", "--train", text, *FRBM, "--init", str(folder / "frbm"), "--rate", "1e-20", "--json"]
    capsys.readouterr()
    assert main([*begin, "--out", str(folder / "tfrbm")]) == 0
    record = json.loads(capsys.readouterr().out.splitlines()[-1])
    frbm, tfrbm = (jaxlm.load(folder / name) for name in ("frbm", "tfrbm"))
    for one, two in zip(frbm.params, tfrbm.params, strict=False):
        np.testing.assert_allclose(one, two, rtol=1e-6)
    assert np.max(np.abs(tfrbm.params.A)) < 1e-15
    assert main(["eval", str(folder / "frbm"), "--text", text, "--json"]) == 0
    of_frbm = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert main(["eval", str(folder / "tfrbm"), "--text", text, "--json"]) == 0
    of_tfrbm = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert of_tfrbm["perplexity"] == pytest.approx(of_frbm["perplexity"], rel=1e-5)
    assert record["valid"]["perplexity"] > 1
    # the same command goes on from there; another beginning is another training
    assert main([*begin, "--out", str(folder / "tfrbm"), "--resume"]) == 0
    assert main([*[x for x in begin if x not in ("--init", str(folder / "frbm"))],
                 "--out", str(folder / "tfrbm"), "--resume"]) == 2  # fmt: skip
    assert "initial" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--num-features", "5"], "its R is of shape"),
        (["--init", "nowhere"], "nowhere"),
    ],
)
def test_what_does_not_fit_is_one_line(trained, options, said, tmp_path, capsys):
    folder, text = trained
    argv = ["train", "tfrbm", "--train", text, *FRBM, "--init", str(folder / "frbm"), "--out", str(tmp_path / "m")]
    assert main([*argv, *options]) == 2
    *_, error = capsys.readouterr().err.splitlines()
    assert error.startswith("jaxlm: ")
    assert said in error
    assert not (tmp_path / "m" / "config.json").exists()


WORDS = {  # parameters with an entry for each word
    "docnade-lm": "R W U b",
    "glove": "W C b c",
    "lstm": "R U b",
    "deepdocnade": "W V b",
}


@pytest.mark.parametrize("name", WORDS)
def test_each_word_begins_with_its_own_entries(name, tmp_path):
    """Of a model of another text, with other words, in another order; those that it lacks begin as without it."""
    texts = [write_text(tmp_path / f"{seed}.txt", seed) for seed in (1, 2)]
    before = _train(name, texts[0], tmp_path / "before", "--vocab-size", "30")
    record = before.record
    corpus = (of_files if record.reads == "documents" else user_text.from_files)([texts[1]], size=40).corpus
    words, counts = corpus.vocabulary, corpus.word_counts()
    sizes = {field: getattr(before.config, field) for field in SIZES if hasattr(before.config, field)}
    overrides = {**record.recipes["tuned"][1], **sizes}
    config = record.configure(len(words), None, overrides, counts)
    plain = record.fitting.init(jax.random.key(1), config, counts)
    after, number, _ = begin_from(tmp_path / "before", plain, record, overrides, None, words, counts)
    assert before.vocabulary.words != words.words[:30]
    assert len(before.vocabulary) == 30
    assert number == sum(word in before for word in words.words) < len(words)
    theirs, own, found = map(named_arrays, (before.params, plain, after))
    for parameter, values in found.items():
        if parameter not in WORDS[name].split():
            np.testing.assert_array_equal(values, theirs[parameter], err_msg=parameter)
            continue
        for word, value, alone in zip(words.words, values, own[parameter], strict=True):
            expected = theirs[parameter][before.vocabulary.ids[word]] if word in before else alone
            np.testing.assert_array_equal(value, expected, err_msg=f"{parameter} of {word}")


def test_entries_of_words_are_not_taken_for_as_many_nodes_of_a_tree(tmp_path, capsys):
    texts = [write_text(tmp_path / f"{seed}.txt", seed) for seed in (1, 2)]
    _train("lbl", texts[0], tmp_path / "words", "--vocab-size", "30")
    argv = ["train", "lbl", "--train", texts[1], *SMALL, "--objective", "tree", "--vocab-size", "31"]
    assert main([*argv, "--init", str(tmp_path / "words"), "--out", str(tmp_path / "nodes")]) == 2
    assert (
        "its b has an entry for each word and that of the new model has not, or the reverse" in capsys.readouterr().err
    )


def test_nodes_of_a_tree_are_not_taken_for_as_many_words_of_the_same_text(tmp_path, capsys):
    text = write_text(tmp_path / "text.txt", seed=1)
    number = len(_train("lbl", text, tmp_path / "words").vocabulary)
    children = build("random", jax.random.key(0), num_words=number).children.copy()
    node, side = np.argwhere(children < 0)[0]
    word, children[node, side] = children[node, side], len(children)
    children = np.append(children, [[word, ~((~word + 1) % number)]], axis=0)  # the next word has a second code
    tree_file.save(Tree(children.astype(np.int32), number), tmp_path / "tree.npz")
    assert len(children) == number
    _train("hlbl", text, tmp_path / "nodes", "--tree", str(tmp_path / "tree.npz"))
    argv = ["train", "lbl", "--train", text, *SMALL, "--diagonal", "--init", str(tmp_path / "nodes")]
    assert main([*argv, "--out", str(tmp_path / "m")]) == 2
    assert (
        "its b has an entry for each word and that of the new model has not, or the reverse" in capsys.readouterr().err
    )


def test_a_model_of_another_kind_with_the_same_options_is_another_beginning(tmp_path, capsys):
    text = write_text(tmp_path / "text.txt", seed=1)
    argv = ["train", "vlbl", "--train", text, *FEW, "--out", str(tmp_path / "m"), "--init"]
    for name in ("vlbl", "ivlbl"):
        _train(name, text, tmp_path / name)
    assert main([*argv, str(tmp_path / "vlbl")]) == 0
    assert main([*argv, str(tmp_path / "ivlbl"), "--resume"]) == 2
    assert "initial" in capsys.readouterr().err.splitlines()[-1]


def test_models_that_share_no_vectors_of_words_are_refused(tmp_path, capsys):
    text = write_text(tmp_path / "text.txt", seed=1)
    _train("glove", text, tmp_path / "glove")
    argv = ["train", "nplm", "--train", text, "--init", str(tmp_path / "glove"), "--out", str(tmp_path / "m")]
    assert main([*argv, *SMALL]) == 2
    assert "glove and nplm have only b in common, no vectors of words" in capsys.readouterr().err
    assert not (tmp_path / "m" / "config.json").exists()


def _train(name, text, out, *options):
    # as many hidden units as words, so that these axes could be taken for one another
    size = {"nplm": ["--num-hidden", "8"], "docnade-lm": ["--num-hidden", "30"]}.get(name, [])
    few = ["--num-hidden", "6", "--epochs", "2"]
    small = {"glove": SMALL[:2], "vlbl": FEW, "ivlbl": FEW, "lstm": [*SMALL[:2], *few], "deepdocnade": few}
    assert main(["train", name, "--train", text, "--out", str(out), *small.get(name, SMALL), *size, *options]) == 0
    return jaxlm.load(out)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("hlbl", ["--tree", "random"], "it is not over the same tree"),
        ("lbl", ["--objective", "tree", "--tree", "random"], "it is not over the same tree"),
        ("lbl", ["--objective", "classes"], "its words are in other classes"),
    ],
)
def test_what_cannot_follow_the_words_is_refused(name, options, said, tmp_path, capsys):
    """The words of --vocab are the same, but in another order, that of their counts in the other text."""
    texts = [write_text(tmp_path / f"{seed}.txt", seed) for seed in (1, 2)]
    _train(name, texts[0], tmp_path / "before", *options)
    words = ["--vocab", str(tmp_path / "before" / "vocabulary.txt"), "--init", str(tmp_path / "before")]
    argv = ["train", name, "--train", texts[1], "--out", str(tmp_path / "m"), *SMALL, *options, *words]
    assert main(argv) == 2
    *_, error = capsys.readouterr().err.splitlines()
    assert error.startswith("jaxlm: ")
    assert said in error
    assert "train " in error.split(" - ")[1]
    assert not (tmp_path / "m" / "config.json").exists()


def test_classes_must_be_the_same(trained, tmp_path, capsys):
    """Of the same text and the same number of classes, classes of equal size are others than those of frequency."""
    _, text = trained
    classes = ["--objective", "classes", "--num-classes", "3"]
    before = _train("lbl", text, tmp_path / "before", *classes)
    begin = ["--init", str(tmp_path / "before"), "--rate", "1e-20", "--decay", "0"]
    same = _train("lbl", text, tmp_path / "same", *classes, *begin)
    np.testing.assert_allclose(same.params.head.Q, before.params.head.Q, rtol=1e-6)
    argv = ["train", "lbl", "--train", text, "--out", str(tmp_path / "m"), *SMALL, *classes, *begin]
    capsys.readouterr()
    assert main([*argv, "--classes-by", "size"]) == 2
    *_, error = capsys.readouterr().err.splitlines()
    assert "its words are in other classes" in error


def test_a_model_with_classes_begins_from_one_without_them(tmp_path):
    """Of another text, too; only what belongs to classes cannot be that of other words, and that is not there."""
    texts = [write_text(tmp_path / f"{seed}.txt", seed) for seed in (1, 2)]
    before = _train("nplm", texts[0], tmp_path / "before")
    still = ["--objective", "classes", "--rate", "1e-20", "--decay", "0"]
    after = _train("nplm", texts[1], tmp_path / "after", *still, "--init", str(tmp_path / "before"))
    assert before.vocabulary.words != after.vocabulary.words
    of_tea, of_tea_before = (model.params.U[model.vocabulary.ids["tea"]] for model in (after, before))
    np.testing.assert_allclose(of_tea, of_tea_before, rtol=1e-6, atol=1e-15)
    assert len(after.params.head.Q) == len(after.config.class_ends) > 1


def test_models_of_other_words_are_refused(trained, tmp_path, capsys):
    folder, _ = trained
    other = tmp_path / "other.txt"
    other.write_text("der Hund bellt\ndie Katze schläft\n" * 50)
    argv = ["train", "frbm", "--train", str(other), *FRBM, "--init", str(folder / "frbm"), "--out", str(tmp_path / "m")]
    assert main(argv) == 2
    assert "it knows none of the words" in capsys.readouterr().err


def test_models_without_shared_parameters_are_refused(trained, tmp_path, capsys):
    _, text = trained
    assert main(["train", "kn", "--train", text, "--out", str(tmp_path / "kn")]) == 0
    argv = ["train", "frbm", "--train", text, *FRBM, "--init", str(tmp_path / "kn"), "--out", str(tmp_path / "m")]
    assert main(argv) == 2
    assert "none of the parameters" in capsys.readouterr().err
