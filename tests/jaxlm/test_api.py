"""`jaxlm.train`, and what a trained model does in Python."""

import json
import math

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import jaxlm
from jaxfit.errors import FolderTaken, NotInTraining, Unsupported, UserError
from jaxlm.cli.main import main
from jaxlm.data.encoding import encode
from jaxlm.tasks.evaluate import evaluate
from small_models import SMALL

pytestmark = pytest.mark.filterwarnings("ignore:Kneser-Ney. the numbers")  # the text is too small for them


@pytest.fixture(scope="module")
def lines():
    return [f"the {animal} {verb} the {food}" for animal in ("cat", "dog") for verb in ("eats", "sees") for food in
            ("fish", "bone", "bread")] * 4  # fmt: skip


@pytest.fixture(scope="module")
def counted(lines):
    return jaxlm.train("kn", lines, order=2, min_count=1, progress=False)


@pytest.fixture(scope="module")
def neural(lines):
    return jaxlm.train("lbl", lines, num_features=3, context_size=2, epochs=2, batch_size=16, progress=False)


def test_a_call_gives_the_model_of_the_command(place, tmp_path):
    options = dict(zip([o[2:].replace("-", "_") for o in SMALL[::2]], SMALL[1::2], strict=True))
    given = {name: float(value) if "." in value else int(value) for name, value in options.items()}
    called = jaxlm.train(
        "lbl", place / "train.txt", valid=place / "valid.txt", out=tmp_path / "a", progress=False, **given
    )
    command = ["train", "lbl", "--train", str(place / "train.txt"), "--valid", str(place / "valid.txt"), *SMALL]
    assert main([*command, "--out", str(tmp_path / "b")]) == 0
    for loaded in (jaxlm.load(tmp_path / "a"), jaxlm.load(tmp_path / "b")):
        for mine, theirs in zip(called.params, loaded.params, strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_resume_finds_the_finished_model_and_a_taken_folder_is_refused(lines, tmp_path):
    more = {"num_features": 3, "context_size": 2, "epochs": 2, "batch_size": 16, "progress": False}
    first = jaxlm.train("lbl", lines, out=tmp_path / "m", **more)
    again = jaxlm.train("lbl", lines, out=tmp_path / "m", resume=True, **more)
    np.testing.assert_array_equal(first.vectors(), again.vectors())
    with pytest.raises(FolderTaken, match="choose another --out, or remove the folder first"):
        jaxlm.train("lbl", lines, out=tmp_path / "m", **more)
    with pytest.raises(UserError, match="a training in memory cannot be resumed"):
        jaxlm.train("lbl", lines, resume=True, **more)


def test_numbers_of_numpy_and_jax_are_those_of_python(lines):
    options = {"context_size": 2, "epochs": 1, "batch_size": 16, "anneal": False, "progress": False}
    plain = jaxlm.train(
        "lbl", lines, num_features=3, seed=2, rate={"*": 0.5, "b": 0.25}, decay=0.03125, drops=[0.5], **options
    )
    other = jaxlm.train(
        "lbl", lines, num_features=np.int64(3), seed=np.int64(2), rate={"*": np.float32(0.5), "b": jnp.float32(0.25)},
        decay=jnp.float32(0.03125), drops=np.array([0.5]), **options,
    )  # fmt: skip
    np.testing.assert_array_equal(plain.vectors(), other.vectors())
    with pytest.raises(UserError, match=r"invalid value \['tree', 'nce'\] \(objective\)"):
        jaxlm.train("lbl", lines, objective=np.array(["tree", "nce"]), **options)


@pytest.mark.parametrize("stream", [False, True])
def test_settings_of_jax_change_no_vectors(lines, stream, other_settings):
    options = {"num_features": 2, "window": 2, "epochs": 1, "batch_size": 16, "stream": stream, "progress": False}
    plain = jaxlm.train("skipgram", lines, **options).vectors()
    with other_settings():
        other = jaxlm.train("skipgram", lines, **options).vectors()
        assert jaxlm.train("kn", lines, order=2, progress=False).perplexity(lines) < 10
    np.testing.assert_array_equal(plain, other)
    assert other.dtype == np.float32


def test_settings_of_jax_change_no_predictions(lines, other_settings):
    def trained():
        options = {"num_features": 3, "context_size": 2, "epochs": 2, "batch_size": 16, "dropout": 0.2}
        model = jaxlm.train("lbl", lines, **options, progress=False)
        return model.log_prob("the cat"), model.scores(lines[:3]), model.sample(2, seed=3), *model.params[:3]

    plain = trained()
    with other_settings():
        other = trained()
    for one, two in zip(plain, other, strict=True):
        np.testing.assert_array_equal(one, two)


def test_lines_in_memory_are_read_as_those_of_a_file(lines, counted, tmp_path):
    (tmp_path / "train.txt").write_text("".join(f"{line}\n" for line in lines))
    of_file = jaxlm.train("kn", tmp_path / "train.txt", order=2, min_count=1, progress=False)
    of_words = jaxlm.train("kn", [line.split() for line in lines], order=2, min_count=1, progress=False)
    for other in (of_file, of_words):
        assert other.vocabulary.words == counted.vocabulary.words
        assert other.scores(lines[:5]) == counted.scores(lines[:5])


def test_evaluation_is_that_of_the_file(lines, counted, tmp_path):
    (tmp_path / "test.txt").write_text("the cat sees the bird\n")
    text = encode([tmp_path / "test.txt"], counted.vocabulary)
    expected = evaluate(counted.event_log_probs(text.ids), text.unknown)
    found = counted.evaluate(["the cat sees the bird"])
    assert found.log_prob == expected.log_prob
    assert (found.events, found.unknown) == (6, 1)
    assert counted.perplexity(tmp_path / "test.txt") == math.exp(-expected.log_prob / 6)


def test_words_and_samples(counted, neural):
    assert "cat" in counted
    assert "bird" not in counted
    assert counted.sample(3, prefix="the cat", seed=2) == counted.sample(5, prefix="the cat", seed=2)[:3]
    assert all(line.startswith("the cat") for line in counted.sample(3, prefix="the cat"))
    assert repr(neural) == f"<lbl: {len(neural.vocabulary)} words, {neural.num_parameters()} parameters>"
    assert repr(counted).endswith("n-grams>")
    near = neural.neighbours("cat", top=3)
    assert len(near) == 3
    vectors = neural.vectors()
    at = [neural.vocabulary.ids[word] for word in ("cat", near[0].word)]
    one, other = vectors[at]
    assert near[0].cosine == pytest.approx(one @ other / np.linalg.norm(one) / np.linalg.norm(other), abs=1e-6)


def test_documents_are_given_likewise():
    documents = ["apples pears plums", "pears plums plums", "cars trains", "trains cars cars"] * 10
    model = jaxlm.train("docnade", documents, num_hidden=4, epochs=2, batch_size=4, progress=False)
    found = model.evaluate(documents[:4])
    assert found.documents == 4
    assert model.perplexity(documents[:4]) == found.perplexity
    for name, wrong in (("orderings", 0), ("orderings", 2.5), ("seed", -1), ("seed", "1")):
        with pytest.raises(UserError, match=rf"invalid value .* \({name}\)"):
            model.perplexity(documents[:4], **{name: wrong})


def test_a_text_may_be_the_only_column_of_a_data_frame(lines, counted):
    frame = pd.DataFrame({"text": lines, "number": range(len(lines))})
    model = jaxlm.train("kn", frame[["text"]], order=2, progress=False)
    assert model.perplexity(frame[["text"]]) == model.perplexity(lines)
    assert len(model.vocabulary) == len(jaxlm.train("kn", lines, order=2, progress=False).vocabulary)
    with pytest.raises(UserError, match="a data frame with the columns 'text', 'number' is no text"):
        jaxlm.train("kn", frame)
    with pytest.raises(UserError, match="a data frame"):
        counted.perplexity(frame)
    assert model.perplexity(pa.table({"text": lines})) == model.perplexity(lines)


def test_a_vocabulary_may_be_a_list(lines):
    words = ["cat", "dog", "the"]
    for given in (words, tuple(words), np.array(words), pd.Series(words), [*words, "<eos>"]):
        model = jaxlm.train("unigram", lines, vocabulary=given, progress=False)
        assert {"cat", "dog", "the", "<eos>", "<unk>"} == set(model.vocabulary.words)
    for wrong, said in (([], "the list of words is empty"), (np.array([]), "the list of words is empty"),
                        ({"cat": 1}, "dict is no list of words"), (3, "int is no list of words")):  # fmt: skip
        with pytest.raises(UserError, match=rf"^{said} \(vocabulary\)"):
            jaxlm.train("unigram", lines, vocabulary=wrong, progress=False)


def test_errors_can_be_told_apart(lines, counted, neural):
    with pytest.raises(NotInTraining, match="'bird' is not in the model's vocabulary"):
        neural.neighbours("bird")
    with pytest.raises(Unsupported, match="kn has none"):
        counted.neighbours("cat")
    with pytest.raises(UserError, match="did you mean num_features"):
        jaxlm.train("lbl", lines, num_feature=3)
    with pytest.raises(UserError, match="'test' - call evaluate of the trained model"):
        jaxlm.train("lbl", lines, test=lines)
    with pytest.raises(UserError, match=r"'init' - did you mean initial\?"):
        jaxlm.train("lbl", lines, init="m")
    with pytest.raises(UserError, match="'nonesuch' - the command's --help-all lists the options"):
        jaxlm.train("lbl", lines, nonesuch=3)
    with pytest.raises(UserError, match="there is no recipe"):
        jaxlm.train("lbl", lines, recipe="best")
    with pytest.raises(UserError, match="only one of these"):
        jaxlm.train("lbl", lines, vocab_size=5, min_count=2)
    for option in ({"resume": True}, {"epochs": 3}, {"devices": 8}):
        said = f"there is no option '{next(iter(option))}' - leave it out: kn is not trained by SGD"
        with pytest.raises(UserError, match=said):
            jaxlm.train("kn", lines, **option)
    with pytest.raises(UserError, match="list is not the name of a language model"):
        jaxlm.train(lines, "kn")
    with pytest.raises(UserError, match="list is not a text"):
        neural.neighbours(["cat"])
    with pytest.raises(UserError, match="list is not a text"):
        neural.score(["the cat"])
    with pytest.raises(UserError, match="a line has a line end inside - give one line"):
        counted.score("the cat\nthe dog")
    assert counted.score("the cat\n") == counted.score("the cat")
    for asked in (neural.score, neural.log_prob, counted.log_prob):
        with pytest.raises(UserError, match="the line-end marker <eos> as a word"):
            asked("the <eos> cat")
    np.testing.assert_array_equal(counted.log_prob(["the", "<eos>", "cat"]), counted.log_prob("cat"))
    with pytest.raises(UserError, match="for a text in memory give a list of its lines"):
        counted.perplexity("the cat sat")
    with pytest.raises(UserError, match=r"\(train, line 1\)") as error:
        jaxlm.train("docnade", ["0 cat:x", "dog"], format="counts", progress=False)
    assert "/" not in str(error.value)


@pytest.mark.parametrize("ids", [[1, 99], [-1, 2], [0.5], ["cat"], [[1, 2]]])
def test_ids_that_are_not_of_the_vocabulary_are_refused(counted, neural, ids):
    for model in (counted, neural):
        with pytest.raises(UserError, match="use encode for words"):
            model.event_log_probs(ids)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("lbl", {"objective": "foo"}, r"invalid value 'foo' \(objective\)"),
        ("lbl", {"reduction": "foo"}, "choose from sum, mean"),
        ("lbl", {"anneal": "no"}, "give True or False"),
        ("lbl", {"epochs": "3"}, "give a whole number"),
        ("lbl", {"rate": "fast"}, "give a number"),
        ("lbl", {"max_minutes": 1.0}, "a training in memory"),
        ("lbl", {"seed": -1}, "seed"),
        ("kn", {"recipe": "nonsense"}, "there is no recipe"),
        ("kn", {"min_count": 0}, "min_count"),
        ("kn", {"closed_vocabulary": "no"}, r"invalid value 'no' \(closed_vocabulary\) - give True or False"),
        ("kn", {"progress": "no"}, r"invalid value 'no' \(progress\) - give True or False"),
        ("kn", {"vocabulary": []}, r"is empty \(vocabulary\)"),
        ("kn", {"stop_words": ["a"]}, "of documents alone"),
        ("docnade", {"vocabulary": ["a", "b"], "vocab_size": 3}, "only one of these"),
    ],
)
def test_values_are_checked_as_the_command_checks_them(lines, name, options, said):
    with pytest.raises(UserError, match=said):
        jaxlm.train(name, lines, **{"progress": False, **options})


@pytest.mark.parametrize("option", ["tree", "bootstrap"])
def test_names_of_files_may_be_paths(lines, option, tmp_path):
    with pytest.raises(UserError, match=r"no rule for trees or file|no model here"):
        jaxlm.train("hlbl", lines, progress=False, **{option: tmp_path / "none"})


def test_a_failed_call_leaves_no_folder(tmp_path):
    with pytest.raises(UserError, match="there is no such file"):
        jaxlm.train("kn", "no-such-file.txt", out=tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_training_out_of_time_warns_and_goes_on(lines, tmp_path):
    more = {
        "num_features": 3,
        "context_size": 2,
        "epochs": 2,
        "batch_size": 16,
        "out": tmp_path / "m",
        "progress": False,
    }
    with pytest.warns(UserWarning, match="stopped after max_minutes"):
        jaxlm.train("lbl", lines, max_minutes=0.0, **more)
    assert jaxlm.train("lbl", lines, resume=True, **more).info["finished"]


def test_on_epoch_receives_each_line_of_the_journal(lines, tmp_path):
    out, received = tmp_path / "m", []
    options = {"num_features": 2, "batch_size": 16, "out": out, "progress": False, "resume": True}

    def fail(line):
        raise RuntimeError(f"epoch {line['epoch']}")

    with pytest.raises(RuntimeError, match="epoch 0"):
        jaxlm.train("lbl", lines, epochs=2, on_epoch=fail, **options)
    jaxlm.train("lbl", lines, epochs=2, on_epoch=received.append, **options)
    journal = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in journal] == [0, 1]
    assert received == journal[2 - len(received) :]
    assert received[-1]["shown"]["validation perplexity"] == pytest.approx(math.exp(received[-1]["valid"]))
    jaxlm.train("lbl", lines, epochs=2, on_epoch=fail, **options)  # has finished
    with pytest.raises(UserError, match="kn is not trained in epochs"):
        jaxlm.train("kn", lines, on_epoch=received.append, progress=False)
    with pytest.raises(UserError, match="3 is not a function"):
        jaxlm.train("lbl", lines, on_epoch=3, progress=False)


def test_on_epoch_receives_no_line_of_the_model_that_a_tree_is_built_from(lines):
    received = []
    jaxlm.train(
        "hlbl",
        lines,
        num_features=2,
        epochs=2,
        batch_size=16,
        tree="adaptive",
        on_epoch=received.append,
        progress=False,
    )
    assert [line["epoch"] for line in received] == [0, 1]


def test_lines_of_another_encoding_are_those_of_the_file(tmp_path):
    lines = ["été à la mer", "l'été est là"] * 10
    (tmp_path / "latin").write_bytes("".join(f"{line}\n" for line in lines).encode("latin-1"))
    of_file = jaxlm.train("kn", tmp_path / "latin", encoding="latin-1", order=2, progress=False)
    of_lines = jaxlm.train("kn", lines, encoding="latin-1", order=2, progress=False)
    assert of_lines.vocabulary.words == of_file.vocabulary.words
    assert of_file.perplexity(lines) == of_file.perplexity(tmp_path / "latin")
    with pytest.raises(UserError, match="has a character that latin-1 lacks"):
        of_file.perplexity(["\u0416"])


def test_sentences_are_prepared_as_the_training_text_was(lines):
    model = jaxlm.train("kn", lines, order=2, lower=True, progress=False)
    assert model.score("The Cat eats") == model.score("the cat eats")
    np.testing.assert_array_equal(model.log_prob("The Cat"), model.log_prob("the cat"))


def test_documents_have_vectors():
    documents = ["apples pears plums", "12:30 pears plums", "cars trains", "trains cars cars"] * 10
    model = jaxlm.train("docnade", documents, num_hidden=4, epochs=1, batch_size=4, min_count=1, progress=False)
    assert "12:30" in model, "texts in memory are never taken for counts"
    assert model.features(["pears plums", "cars"]).shape == (2, 4)
    counts = jaxlm.train("lda", ["1 1:2 2:1", "0 2:3"], num_topics=2, format="counts", progress=False)
    assert counts.vocabulary.words == ("1", "2")
