"""Commands on documents: train, eval, features, topics, neighbours; and what users get wrong."""

import gzip
import json

import numpy as np
import pytest

import jaxlm
from jaxlm.cli.main import main
from jaxlm.data.corpus import reading_of
from jaxlm.data.documents.options import DocumentReading
from jaxlm.data.documents.reading import encode
from jaxlm.tasks.documents import evaluate, topics

NAMES = [f"w{i}" for i in range(12)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write files of counts, whose two halves of words do not mix, and train a model of them."""
    folder, rng = tmp_path_factory.mktemp("documents"), np.random.default_rng(0)
    (folder / "vocab").write_text("".join(f"{name} 3\n" for name in NAMES))
    for name, number in {"train": 80, "valid": 20, "test": 20}.items():
        lines = []
        for _ in range(number):
            topic = rng.integers(2)
            words, counts = np.unique(rng.integers(6, size=8) + 6 * topic + 1, return_counts=True)
            pairs = " ".join(f"{w}:{n}" for w, n in zip(words, counts, strict=True))
            lines.append(f"{topic} {pairs}\n")
        (folder / f"{name}.feat").write_text("".join(lines))
    (folder / "other.feat").write_text("0 1:1 13:2 40:1\n1\n")
    (folder / "unlabelled.feat").write_text("1:1 2:2\n 3:1\n")
    assert main([*train(folder), "--epochs", "12", "--rate", "0.05", "--batch-size", "10"]) == 0
    return folder


def train(folder, out="model"):
    files = {name: str(folder / f"{name}.feat") for name in ("train", "valid", "test")}
    options = [text for name, file in files.items() for text in (f"--{name}", file)]
    return ["train", "docnade", *options, "--vocab", str(folder / "vocab"), "--num-hidden", "4", "--out",
            str(folder / out), "--log-counts", "--quiet"]  # fmt: skip


def documents_of(model, *files):
    return encode([str(file) for file in files], model.vocabulary, reading_of(model.info, DocumentReading))


def test_training_reports_the_perplexity_of_documents(folder, capsys):
    assert main([*train(folder, "again"), "--epochs", "1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["documents"] == {"train": 80, "valid": 20, "test": 20}
    assert result["words"] == 12
    assert result["valid"].keys() == {"document_perplexity", "documents", "words", "unknown", "orderings"}
    model = jaxlm.load(folder / "again")
    documents, _ = documents_of(model, folder / "valid.feat")
    assert model.vocabulary.words == tuple(NAMES)
    assert result["test"]["document_perplexity"] < 13
    assert result["valid"]["document_perplexity"] == pytest.approx(
        evaluate(model.document_log_probs(documents), documents.lengths).perplexity, rel=0.05
    )
    assert "| document_perplexity |" in (folder / "again" / "README.md").read_text()


def test_eval_averages_over_orders(folder, call):
    result = json.loads(call("eval", folder / "model", "--text", folder / "test.feat", "--orderings", "3", "--json"))
    model = jaxlm.load(folder / "model")
    documents, unknown = documents_of(model, folder / "test.feat")
    expected = evaluate(model.document_log_probs(documents, 3), documents.lengths, unknown, 3)
    assert result == {
        "command": "eval", "directory": str(folder / "model"), "model": "docnade",
        "text": [str(folder / "test.feat")], **expected.record(),
    }  # fmt: skip
    assert 6 < expected.perplexity < 8
    shown = call("eval", folder / "model", "--text", folder / "test.feat", "--orderings", "3")
    assert f"document perplexity  {expected.perplexity:.2f}" in shown
    assert "orders of words      3 of each document" in shown
    other = json.loads(call("eval", folder / "model", "--text", folder / "test.feat", "--seed", "2", "--json"))
    assert other["document_perplexity"] != result["document_perplexity"]


def test_training_says_of_test_documents_what_eval_says(folder, call):
    """Of an estimate also its standard error: that of the chains, which the interval over documents leaves out."""
    argv = train(folder, "softmax")
    argv[1] = "replicated-softmax"
    argv.remove("--quiet")
    shown = call(*argv, "--epochs", "1", "--batch-size", "10")
    evaluated = call("eval", folder / "softmax", "--text", folder / "test.feat", "--json")
    result = json.loads(evaluated)
    assert result["standard_error"] > 0
    figures = f"{result['document_perplexity']:.2f}, standard error {result['standard_error']:.2f} (20 documents"
    assert f"test document perplexity {figures}" in shown


def test_eval_leaves_unknown_words_and_empty_documents_out(folder, call):
    shown = call("eval", folder / "model", "--text", folder / "other.feat")
    assert "documents            1 (1 more have no words)" in shown
    assert "unknown words        2 (66.7 %), left out" in shown, "by log(1 + n), as the others"


def test_features_are_written_as_an_array_or_as_text(folder, call):
    model = jaxlm.load(folder / "model")
    documents, _ = documents_of(model, folder / "test.feat", folder / "other.feat")
    expected = model.features(documents)
    assert expected.shape == (22, 4)
    files = [folder / "test.feat", folder / "other.feat"]
    call("features", folder / "model", *files, "--out", folder / "vectors.npy")
    np.testing.assert_array_equal(np.load(folder / "vectors.npy"), expected)
    for name, opened in (("vectors.txt", open), ("vectors.gz", gzip.open)):
        result = json.loads(call("features", folder / "model", *files, "--out", folder / name, "--json"))
        assert (result["documents"], result["features"], result["unknown"]) == (22, 4, 2)
        with opened(folder / name, "rt") as file:
            np.testing.assert_allclose(np.loadtxt(file), expected, rtol=1e-6)


def test_documents_with_the_same_label_are_retrieved(folder, call):
    argv = ["retrieve", folder / "model", folder / "test.feat", "--database", folder / "train.feat"]
    result = json.loads(call(*argv, "--json"))
    assert (result["queries"], result["documents"]) == (20, 80)
    assert result["by_chance"][-1] == pytest.approx(0.5, abs=0.1)
    assert result["precision"][0] > 0.95
    assert result["precision"][-1] > result["by_chance"][-1]
    assert all(low <= p <= high for p, (low, high) in zip(result["precision"], result["intervals"], strict=True))
    lines = call(*argv).splitlines()
    assert lines[0].startswith("20 queries, 80 documents")
    assert lines[1] == "unknown words, left out: 0 of queries, 0 of documents"
    assert len(lines) == 3 + len(result["recall"])


def test_retrieve_says_that_queries_are_in_the_database(folder, capsys):
    queries = folder / "test.feat"
    for database in ([folder / "train.feat"], [folder / "train.feat", f"{folder}/./test.feat"]):
        assert main(["retrieve", str(folder / "model"), str(queries), "--database", *map(str, database)]) == 0
        said = f"retrieve: {queries} is in the database, too: each of its documents finds itself first\n"
        assert capsys.readouterr().err == (said if len(database) > 1 else "")


def test_retrieve_says_what_is_left_out(folder, call):
    (folder / "odd.feat").write_text("0 1:1 13:2 40:1\n7 2:1\n8 3:1\n")
    argv = ["retrieve", folder / "model", folder / "odd.feat", "--database", folder / "train.feat"]
    result = json.loads(call(*argv, "--json"))
    assert (result["queries"], result["left_out"]) == (1, 2)
    assert result["unknown"] == {"queries": 2, "documents": 0}
    lines = call(*argv).splitlines()
    assert lines[1] == "left out: 2 queries without a label of the database"
    assert lines[2] == "unknown words, left out: 2 of queries, 0 of documents"


def test_words_of_a_topic_are_neighbours(folder, call):
    result = json.loads(call("neighbours", folder / "model", "w1", "w8", "--top", "5", "--json"))["neighbours"]
    near = {word: {int(row["word"][1:]) // 6 for row in rows} for word, rows in result.items()}
    assert near == {"w1": {0}, "w8": {1}}


def test_topics_are_the_words_with_the_largest_weights(folder, call):
    rows = json.loads(call("topics", folder / "model", "--top", "3", "--json"))["topics"]
    weights = jaxlm.load(folder / "model").vectors()
    for unit, row in enumerate(rows):
        best = sorted(range(12), key=lambda i, unit=unit: -weights[i, unit])[:3]
        assert [each["word"] for each in row] == [NAMES[i] for i in best]
    first = call("topics", folder / "model", "--top", "3").splitlines()[0]
    assert first.split() == ["1", *(each["word"] for each in rows[0])]
    assert topics([[1.0, 5.0], [3.0, 4.0]], ["a", "b"], 2) == [[("b", 3.0), ("a", 1.0)], [("a", 5.0), ("b", 4.0)]]


def test_texts_are_documents_too(folder, call, capsys, tmp_path):
    lines = [" ".join(NAMES[(i + j) % 12] for j in range(5)) for i in range(40)]
    (tmp_path / "train.txt").write_text("".join(f"{line}\n" for line in lines))
    options = ["--epochs", "1", "--num-hidden", "4", "--out", tmp_path / "out", "--tree", "huffman"]
    assert "12 words" in call("train", "docnade", "--train", tmp_path / "train.txt", *options)
    assert "12 words" in call("info", tmp_path / "out")
    assert len(call("tree", tmp_path / "out").splitlines()) == 3
    (tmp_path / "labelled.txt").write_text("a\tw1 w2\nb\tw3 w4\n")
    argv = ["retrieve", tmp_path / "out", tmp_path / "labelled.txt", "--database", tmp_path / "labelled.txt"]
    capsys.readouterr()
    assert main([str(word) for word in argv]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "no labels" in line
    assert "the model was trained on texts without labels: train it with --labelled" in line


def test_eval_says_what_probabilities_are_averaged_over(folder, call, capsys):
    for model, options in {"lda": ["--num-topics", "2"], "replicated-softmax": ["--num-hidden", "2"]}.items():
        files = ["--train", folder / "train.feat", "--valid", folder / "valid.feat", "--vocab", folder / "vocab"]
        call("train", model, *files, "--epochs", "2", *options, "--out", folder / model)
    argv = ["eval", folder / "lda", "--text", folder / "test.feat", "--orderings", "2"]
    assert call(*argv).splitlines()[-1] == "estimates            2 of each document"
    argv[1] = folder / "replicated-softmax"
    capsys.readouterr()
    assert main([str(word) for word in argv]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "the probabilities of a replicated-softmax depend on no order of the words (--orderings)" in line
    assert call(*argv[:-2]).splitlines()[-1].startswith("unknown words")


def test_eval_says_how_far_estimates_are_off(folder, call):
    """The interval is over documents: it has neither the error of a shared estimate, nor how far off a bound is."""
    files = ["--train", folder / "train.feat", "--vocab", folder / "vocab", "--epochs", "2"]
    call("train", "lda", *files, "--num-topics", "2", "--out", folder / "lda-2")
    call("train", "replicated-softmax", *files, "--num-hidden", "2", "--out", folder / "softmax-2")
    for name, key, line, what in (
        ("lda-2", "bound", "variational bound", "which the exact perplexity is at most"),
        ("softmax-2", "standard_error", "standard error", "of the estimated probabilities"),
    ):
        model, argv = jaxlm.load(folder / name), ["eval", folder / name, "--text", folder / "test.feat"]
        documents, _ = documents_of(model, folder / "test.feat")
        found = json.loads(call(*argv, "--json"))
        assert {"bound", "standard_error"} & found.keys() == {key}
        if key == "bound":
            bound = np.exp(-np.mean(model.document_bounds(documents) / documents.lengths))
            assert found[key] > found["document_perplexity"]
            assert found[key] == pytest.approx(bound)
        else:
            error = model.document_standard_error(documents)
            assert error > 0
            assert found[key] == pytest.approx(found["document_perplexity"] * error)
        assert f"{line:<20} {found[key]:.2f}, {what}" in call(*argv)
        assert model.evaluate([folder / "test.feat"]).record()[key] == found[key]


@pytest.mark.parametrize(("model", "carves"), [("docnade", True), ("lda", False)])
def test_help_speaks_of_a_validation_part_of_models_that_take_one(model, carves, capsys):
    with pytest.raises(SystemExit):
        main(["train", model, "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "validation documents" in shown
    assert ("a twentieth" in shown) == carves


FILES = {"model": "model", "test": "test.feat", "vocab": "vocab", "text": "unlabelled.feat"}
MISTAKES = {
    "eval {model} --text {test} --mix {model}": "models of documents are not mixed (--mix, --weight, --fit-weight-on)",
    "eval {model} --text {vocab}": "'3' is not the number of a word",
    "eval {model} --text {test} --orderings 0": "invalid value '0' (--orderings)",
    "train lda --train {test} --alpha 2 --out {model}-x": "(--alpha) - give a number from 0.0001 to 1",
    "train lda --train {test} --eta 1.5 --out {model}-x": "(--eta) - give a number from 0.0001 to 1",
    "features {model} {test}": "--out is missing",
    "retrieve {model} {test}": "--database is missing",
    "retrieve {model} {test} --database {text}": "the documents have no labels ({text})",
    "next {model} w1": "next needs next-word probabilities; docnade has none ({model})",
    "train docnade --out {model}-x": "--train is missing",
    "train docnade --train {test} --vocab-size 5 --out {model}-x": "these are counts (--vocab-size)",
    "train docnade --train {test} --tree none --out {model}-x": "no rule for trees or file 'none' (--tree)",
    "train docnade --train {test} --format words --out {model}-x": "unknown value 'words' (--format)",
}


@pytest.mark.parametrize("command", MISTAKES, ids=str)
def test_mistakes_are_one_line(command, folder, capsys):
    names = {name: folder / file for name, file in FILES.items()}
    capsys.readouterr()
    assert main(command.format(**names).split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert MISTAKES[command].format(**names) in line
