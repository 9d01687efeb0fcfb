"""The `jaxlm` command: every subcommand on a tiny text, its JSON, mixtures, and all that users get wrong."""

import errno
import gzip
import io
import json
import math
import random
import signal
import subprocess
import sys
import warnings

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

import jaxlm
from jaxfit import atomic
from jaxlm.cli import main
from jaxlm.evaluate import LN10

SMALL = ["--num-features", "6", "--context-size", "2", "--batch-size", "100", "--epochs", "3"]


def write_text(path, seed, lines=120):
    rng = random.Random(seed)
    who, did, what = (
        ["he", "she", "they", "nobody"],
        ["saw", "took", "liked", "broke"],
        ["it", "tea", "bread", "time"],
    )
    rare = [f"word{i}" for i in range(60)]
    text = []
    for _ in range(lines):
        line = ["The", rng.choice(who), rng.choice(did), rng.choice(what)]
        text.append(" ".join([*line, rng.choice(rare)] if rng.random() < 0.3 else line))
    path.write_text("\n".join(text) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with texts and a trained model of each kind."""
    folder = tmp_path_factory.mktemp("cli")
    files = {
        name: write_text(folder / f"{name}.txt", seed) for seed, name in enumerate(["train", "valid", "test"])
    }
    for kind, options in {
        "unigram": [],
        "gt": ["--order", "2"],
        "kn": ["--order", "3"],
        "lbl": SMALL,
        "hlbl": [*SMALL, "--tree", "adaptive", "--epsilon", "0.3", "--copies", "2"],
    }.items():
        command = ["train", kind, "--train", files["train"], "--valid", files["valid"]]
        assert main([*command, "--min-count", "2", *options, "--out", str(folder / kind)]) == 0
    return folder


def stdin(content):
    return io.TextIOWrapper(io.BufferedReader(io.BytesIO(content)))


@pytest.fixture
def call(capsys):
    """Run a command line that must succeed; its standard output."""

    def run(*argv):
        capsys.readouterr()
        status = main([str(argument) for argument in argv])
        out, err = capsys.readouterr()
        assert status == 0, err
        return out

    return run


@pytest.fixture
def call_json(call):
    """The same with --json: the last line of standard output, with nothing after it."""

    def run(*argv):
        out = call(*argv, "--json")
        assert out.endswith("}\n")
        return json.loads(out.splitlines()[-1])

    return run


@pytest.fixture
def complaint(capsys):
    """Run a command line that must fail as a user's mistake; its one line."""

    def run(*argv):
        capsys.readouterr()
        status = main([str(argument) for argument in argv])
        out, err = capsys.readouterr()
        assert status == 2, err
        assert out == ""
        assert err.startswith("jaxlm: ")
        assert err.count("\n") == 1
        return err.rstrip("\n")

    return run


KINDS = ["unigram", "gt", "kn", "lbl", "hlbl"]


@pytest.mark.parametrize("kind", KINDS)
def test_eval_sums_the_models_event_log_probabilities(place, call, call_json, kind):
    result = call_json("eval", place / kind, "--text", place / "test.txt")
    words = (place / "test.txt").read_text().replace("\n", " <eos> ").split()
    assert result["events"] == len(words)
    model = jaxlm.load(place / kind)
    assert result["unknown"] == sum(word not in model.vocabulary.ids for word in words) > 0
    expected = model.event_log_probs(model.encode(words)).sum()
    assert result["log_prob"] == pytest.approx(expected, rel=1e-6)
    assert result["perplexity"] == pytest.approx(math.exp(-expected / len(words)), rel=1e-6)
    assert f"perplexity       {result['perplexity']:.2f}" in call(
        "eval", place / kind, "--text", place / "test.txt"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_score_is_the_sum_over_each_line(place, call, monkeypatch, kind):
    sentences = ["The he saw it", "", "The nobody broke novelties"]
    monkeypatch.setattr(sys, "stdin", stdin("\n".join(sentences).encode()))
    scores = [float(line) for line in call("score", place / kind).splitlines()]
    model = jaxlm.load(place / kind)
    np.testing.assert_allclose(scores, model.scores(sentences), atol=2e-6)
    # word by word, each from the whole distribution after those before it on the line
    words = [word if word in model.vocabulary.ids else "<unk>" for word in sentences[2].split()]
    chain = sum(
        model.log_prob(words[:i])[model.vocabulary.ids[word]] for i, word in enumerate([*words, "<eos>"])
    )
    assert scores[2] == pytest.approx(chain / LN10, rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_next_gives_the_most_probable_words(place, call, call_json, kind):
    model = jaxlm.load(place / kind)
    rows = call_json("next", place / kind, "The he", "--top", len(model.vocabulary))["words"]
    p = [row["probability"] for row in rows]
    assert p == sorted(p, reverse=True)
    assert sum(p) == pytest.approx(1, abs=1e-5)
    assert rows[0]["word"] == model.vocabulary.words[int(np.argmax(model.log_prob("The he")))]
    assert call("next", place / kind, "The he", "--top", 3).count("\n") == 3


@pytest.mark.parametrize("kind", ["kn", "lbl"])
def test_sample_depends_on_the_seed_alone(place, call, call_json, kind):
    drawn = call("sample", place / kind, "--lines", 2, "--seed", 5)
    assert drawn == call("sample", place / kind, "--lines", 2, "--seed", 5)
    assert drawn.splitlines() == call_json("sample", place / kind, "--lines", 2, "--seed", 5)["lines"]
    assert set(drawn.split()) <= {*jaxlm.load(place / kind).vocabulary.words, "…"}


def test_neighbours_are_nearest_by_cosine(place, call, call_json):
    rows = call_json("neighbours", place / "lbl", "he", "she", "--top", 4)["neighbours"]["he"]
    model = jaxlm.load(place / "lbl")
    R, me = np.asarray(model.params.R), model.vocabulary.ids["he"]
    cosine = {
        word: R[i] @ R[me] / np.linalg.norm(R[i]) / np.linalg.norm(R[me])
        for word, i in model.vocabulary.ids.items()
        if i != me
    }
    assert [row["word"] for row in rows] == sorted(cosine, key=cosine.get, reverse=True)[:4]
    assert rows[0]["cosine"] == pytest.approx(max(cosine.values()), abs=1e-6)
    assert call("neighbours", place / "lbl", "he", "she").startswith("he: ")


def test_tree_is_told_written_and_used_again(place, call, call_json, tmp_path):
    told = call_json("tree", place / "hlbl", "--out", tmp_path / "codes.txt")
    lines = [line.split("\t") for line in (tmp_path / "codes.txt").read_text().splitlines()]
    assert sum(2.0 ** -len(code) for _, code in lines) == 1  # a whole binary tree, by Kraft
    assert told["num_nodes"] == len(lines) - 1
    model = jaxlm.load(place / "hlbl")
    rate = model.vocabulary.counts / model.vocabulary.counts.sum()
    codes = np.bincount([model.vocabulary.ids[word] for word, _ in lines], minlength=len(rate))
    assert told["mean_codes"] == pytest.approx(rate @ codes)
    assert "non-leaf nodes" in call("tree", place / "hlbl", "--out", tmp_path / "tree.npz")
    files = [argument for name in ("train", "valid") for argument in (f"--{name}", place / f"{name}.txt")]
    command = ["train", "hlbl", *files, "--min-count", 2, *SMALL, "--epochs", 1, "--out", tmp_path / "again"]
    call(*command, "--tree", tmp_path / "tree.npz")
    np.testing.assert_array_equal(jaxlm.load(tmp_path / "again").tree.children, model.tree.children)
    assert not (tmp_path / "again" / "bootstrap").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_info(place, call, call_json, kind):
    told = call_json("info", place / kind)
    assert told["model"] == str(place / kind) or told["model"] == kind
    assert told["words"] == len(jaxlm.load(place / kind).vocabulary)
    assert f"model         {kind}, " in call("info", place / kind)


def test_export_reads_back(place, call, call_json, tmp_path):
    call("export", place / "kn", "--format", "arpa", "--out", tmp_path / "kn.arpa.gz")
    assert gzip.decompress((tmp_path / "kn.arpa.gz").read_bytes()).startswith(b"\\data\\\nngram 1=")
    text = ["--text", place / "test.txt"]
    here, there = (call_json("eval", model, *text) for model in (place / "kn", tmp_path / "kn.arpa.gz"))
    assert there["perplexity"] == pytest.approx(here["perplexity"], rel=1e-6)
    assert call("info", tmp_path / "kn.arpa.gz").startswith("model         arpa")

    model = jaxlm.load(place / "hlbl")
    call("export", place / "hlbl", "--format", "safetensors", "--out", tmp_path / "h.safetensors")
    arrays = load_file(tmp_path / "h.safetensors")
    np.testing.assert_array_equal(arrays["Q"], model.params.Q)
    np.testing.assert_array_equal(arrays["tree"], model.tree.children)

    call("export", place / "lbl", "--format", "word2vec", "--out", tmp_path / "lbl.vec")
    header, *rows = (tmp_path / "lbl.vec").read_text().splitlines()
    R = np.asarray(jaxlm.load(place / "lbl").params.R)
    assert header == f"{R.shape[0]} {R.shape[1]}"
    np.testing.assert_allclose([[float(x) for x in row.split()[1:]] for row in rows], R, rtol=1e-6)


def test_mixture_with_equal_given_and_fitted_weights(place, call, call_json):
    text = ["--text", place / "test.txt", "--mix", place / "kn"]
    p, q = (np.exp(_events(place / kind, place / "test.txt")) for kind in ("lbl", "kn"))
    for options, weight in (([], 0.5), (["--weight", "0.2"], 0.2)):
        result = call_json("eval", place / "lbl", *text, *options)
        assert result["weight"] == weight
        expected = math.exp(-np.log(weight * p + (1 - weight) * q).mean())
        assert result["perplexity"] == pytest.approx(expected, rel=1e-5)
    fitted = call_json("eval", place / "lbl", *text, "--fit-weight-on", place / "valid.txt")
    p, q = (np.exp(_events(place / kind, place / "valid.txt")) for kind in ("lbl", "kn"))
    grid = np.linspace(0, 1, 1001)
    best = grid[np.argmax([np.log(a * p + (1 - a) * q).sum() for a in grid])]
    assert fitted["weight"] == pytest.approx(best, abs=1e-3)
    assert "each alone" in call("eval", place / "lbl", *text)


def _events(directory, file):
    model = jaxlm.load(directory)
    return model.event_log_probs(model.encode(file.read_text().replace("\n", " <eos> ").split()))


def test_models_that_number_the_same_words_differently_can_be_mixed(place, call_json, tmp_path):
    words = (place / "kn" / "vocabulary.txt").read_text().splitlines()
    (tmp_path / "words.txt").write_text("".join(f"{line.split()[0]}\n" for line in reversed(words)))
    reordered = tmp_path / "other.txt"
    reordered.write_text((place / "valid.txt").read_text() * 2 + (place / "train.txt").read_text())
    call_json(
        "train", "kn", "--train", reordered, "--vocab", tmp_path / "words.txt", "--out", tmp_path / "kn"
    )
    other = jaxlm.load(tmp_path / "kn")
    assert other.vocabulary.words != jaxlm.load(place / "kn").vocabulary.words
    mixed = call_json(
        "eval", place / "lbl", "--text", place / "test.txt", "--mix", tmp_path / "kn", "--weight", 0
    )
    alone = call_json("eval", tmp_path / "kn", "--text", place / "test.txt")
    assert mixed["perplexity"] == pytest.approx(alone["perplexity"], rel=1e-9)


def test_models_of_different_words_cannot_be_mixed(place, call, complaint, tmp_path):
    call("train", "kn", "--train", place / "train.txt", "--vocab-size", 10, "--out", tmp_path / "kn")
    line = complaint("eval", place / "lbl", "--text", place / "test.txt", "--mix", tmp_path / "kn")
    assert "different vocabularies" in line


def test_train_tells_what_came_of_it_and_where_validation_came_from(place, call_json, capsys, tmp_path):
    command = ["train", "lbl", "--train", place / "train.txt", "--test", place / "test.txt", "--min-count", 2]
    command += [*SMALL, "--epochs", 1, "--seed", 3, "--out", tmp_path / "lbl", "--json"]
    assert main([str(argument) for argument in command]) == 0
    out, err = capsys.readouterr()
    assert "no --valid: the last 6 lines of the training text" in err
    result = json.loads(out.splitlines()[-1])
    assert result["stopped"] == "done"
    assert result["epochs"] == 1
    assert result["config"]["num_features"] == 6
    words = result["words"]
    assert result["parameters"] == words * 6 + 2 * 6 * 6 + words
    assert 1 < result["valid"]["perplexity"] < words
    lines = (place / "train.txt").read_text().splitlines(keepends=True)
    (tmp_path / "end.txt").write_text("".join(lines[-6:]))
    carved = call_json("eval", tmp_path / "lbl", "--text", tmp_path / "end.txt")
    assert carved["perplexity"] == pytest.approx(result["valid"]["perplexity"], rel=1e-5)
    assert carved["events"] == result["valid"]["events"]
    later = call_json("eval", tmp_path / "lbl", "--text", place / "test.txt")
    assert {name: later[name] for name in result["test"]} == result["test"]


def test_the_default_data_is_used_and_said(tmp_path, capsys):
    assert main(["train", "kn", "--order", "2", "--out", str(tmp_path / "kn"), "--json"]) == 0
    out, err = capsys.readouterr()
    assert "no --train: the default data is used" in err
    result = json.loads(out.splitlines()[-1])
    assert result["events"]["test"] == result["test"]["events"] > 1000
    # what is read later is read as the default data is: lower case, punctuation apart
    assert main(["next", str(tmp_path / "kn"), "The value, The", "--json"]) == 0
    first = capsys.readouterr().out
    assert main(["next", str(tmp_path / "kn"), "the", "--json"]) == 0
    assert json.loads(first)["words"] == json.loads(capsys.readouterr().out)["words"]


def test_later_text_is_read_as_the_training_text_was(place, call, call_json, tmp_path):
    call("train", "kn", "--train", place / "train.txt", "--lower", "--out", tmp_path / "kn")
    (tmp_path / "loud.txt").write_text("THE HE SAW IT\n")
    assert call_json("eval", tmp_path / "kn", "--text", tmp_path / "loud.txt")["unknown"] == 0
    assert call("next", tmp_path / "kn", "THE") == call("next", tmp_path / "kn", "the")


def test_standard_input_is_a_training_text(place, call_json, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "stdin", stdin((place / "train.txt").read_bytes()))
    piped = call_json("train", "kn", "--train", "-", "--test", place / "test.txt", "--min-count", 2, "--order", 3,
                      "--out", tmp_path / "kn")  # fmt: skip
    named = call_json("eval", place / "kn", "--text", place / "test.txt")
    assert piped["test"]["perplexity"] == named["perplexity"]


def bad_files(folder):
    folder.mkdir()
    (folder / "empty.txt").write_text("")
    (folder / "latin.txt").write_bytes("The he saw it\ncaf\xe9\n".encode("latin-1"))
    (folder / "one.txt").write_text("word word\nword\n")
    (folder / "twice.txt").write_text("The\n<eos>\nThe\n")
    (folder / "damaged.gz").write_bytes(gzip.compress(b"The he saw it\n" * 100)[:-20])
    return folder


TRAIN_MISTAKES = {
    "corpus of one word": ("kn --train {bad}/one.txt", "fewer than two different words"),
    "empty file": ("kn --train {bad}/empty.txt", "the file is empty"),
    "invalid UTF-8": ("lbl --train {bad}/latin.txt", "byte offset 17"),
    "duplicate word": ("kn --train {ok} --vocab {bad}/twice.txt", "'The' stands twice"),
    "order 0": ("kn --train {ok} --order 0", "'0' will not do (--order) - give a whole number from 1 to 9"),
    "copies 0": ("hlbl --train {ok} --copies 0", "(--copies)"),
    "directory for a file": ("lbl --train {bad}", "a directory stands where a file should"),
    "directory for a test file": ("kn --train {ok} --test {bad}", "a directory stands where a file should"),
    "no such file": ("kn --train {bad}/nothing.txt", "there is no such file"),
    "no such validation file": ("kn --train {ok} --valid {bad}/nothing.txt", "there is no such file"),
    "damaged gzip": ("kn --train {bad}/damaged.gz", "the gzip file is damaged"),
    "mistyped option": ("kn --train {ok} --ordr 3", "there is no option --ordr (jaxlm train kn) - did you mean"),
    "option of another model": ("kn --train {ok} --copies 2", "there is no option --copies"),
    "both kinds": ("kn --train {ok} --backoff --interpolated", "not allowed with"),
    "two vocabularies": ("kn --train {ok} --vocab-size 9 --min-count 2", "not allowed with"),
    "no number": ("kn --train {ok} --order three", "(--order)"),
    "unknown model": ("knn --train {ok}", "there is no model 'knn' (jaxlm train) - did you mean kn?"),
    "unknown encoding": ("kn --train {ok} --encoding klingon", "unknown encoding 'klingon'"),
    "unknown tree": ("hlbl --train {ok} --tree balancd", "did you mean balanced?"),
    "no tree in the file": ("hlbl --train {ok} --valid {ok} --tree {ok}", "not a tree file"),
    "tree options for a tree file": ("hlbl --train {ok} --tree {ok} --copies 2", "--copies"),
    "bootstrap of another kind": ("hlbl --train {ok} --valid {ok} --bootstrap {place}/kn", "not an hlbl"),
    "unknown parameter": ("lbl --train {ok} --rate Z=1", "no parameter is called 'Z' (--rate)"),
    "rate that is none": ("lbl --train {ok} --rate fast", "'fast' is not a number (--rate)"),
    "unknown optimizer": ("lbl --train {ok} --optimizer sdg", "did you mean sgd?"),
    "too many devices": ("lbl --train {ok} --devices 99", "99 devices asked for"),
    "devices that do not divide": ("lbl --train {ok} --devices 3 --batch-size 100", "a multiple of 3"),
    "dropout of all": ("lbl --train {ok} --dropout 1", "below 1"),
    "options of the default data": ("kn --lower", "give --train FILE"),
    "too few lines to carve": ("lbl --train {bad}/twice.txt --vocab-size 2", "(--vocab-size)"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", TRAIN_MISTAKES)
def test_a_mistake_in_training_is_one_line_and_writes_nothing(place, complaint, tmp_path, mistake):
    command, expected = TRAIN_MISTAKES[mistake]
    words = command.format(bad=bad_files(tmp_path / "bad"), ok=place / "train.txt", place=place).split()
    assert expected in complaint("train", *words, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


MISTAKES = {
    "": "COMMAND is missing (jaxlm)",
    "trian": "did you mean train?",
    "train": "MODEL is missing",
    "train kn --train {place}/train.txt": "--out is missing",
    "train kn --train {place}/train.txt --out {place}/train.txt": "a file stands where",
    "train kn --train {place}/train.txt --out {place}/kn": "a model of kind kn is there already",
    "train kn --train {place}/train.txt --out {place}/lbl": "a model of kind lbl is there already",
    "train lbl --train {place}/train.txt --out {place}/lbl": "add --resume to go on",
    "eval {place}/kn": "--text is missing",
    "eval {place}/nothing --text {place}/test.txt": "no model here",
    "eval {place} --text {place}/test.txt": "no model here",
    "eval {place}/kn --text {place}/nothing.txt": "there is no such file",
    "eval {place}/kn --text {place}": "a directory stands where a file should",
    "eval {place}/test.txt --text {place}/test.txt": "ARPA",
    "eval {place}/kn --text {place}/test.txt --weight 0.5": "no second model",
    "eval {place}/kn --text {place}/test.txt --mix {place}/lbl --weight 2": "(--weight)",
    "score {place}/kn {place}": "a directory stands where a file should",
    "next {place}/kn The he": "'he' is one too many",
    "next {place}/kn The --top 0": "(--top)",
    "neighbours {place}/lbl nobdy": "did you mean nobody?",
    "neighbours {place}/kn he": "no feature vectors",
    "tree {place}/lbl": "has no tree",
    "tree {place}/hlbl --out {place}": "a directory stands where a file should",
    "export {place}/kn": "--format is missing",
    "export {place}/kn --format aprp --out {place}/x": "did you mean arpa?",
    "export {place}/lbl --format arpa --out {place}/x": "an ARPA file holds n-grams",
    "export {place}/kn --format word2vec --out {place}/x": "no feature vectors",
    "export {place}/kn --format arpa --out {place}": "a directory stands where a file should",
}


@pytest.mark.parametrize("command", MISTAKES)
def test_a_mistake_is_one_line_and_changes_nothing(place, complaint, command):
    before = {path: path.stat().st_mtime_ns for path in place.rglob("*")}
    assert MISTAKES[command] in complaint(*command.format(place=place).split())
    assert before == {path: path.stat().st_mtime_ns for path in place.rglob("*")}


def test_a_damaged_model_is_named(place, complaint, call, tmp_path):
    for kind, file in (("lbl", "parameters/state.json"), ("kn", "ngram.npz"), ("hlbl", "tree.npz")):
        copy = tmp_path / kind
        subprocess.run(["cp", "-r", place / kind, copy], check=True)
        content = (copy / file).read_bytes()
        (copy / file).write_bytes(content[: len(content) // 2])
        assert "damaged" in complaint("eval", copy, "--text", place / "test.txt")


def test_a_full_disk_loses_nothing_and_training_goes_on(place, capsys, monkeypatch, tmp_path):
    files = [
        argument for name in ("train", "valid") for argument in (f"--{name}", str(place / f"{name}.txt"))
    ]
    command = ["train", "lbl", *files, "--min-count", "2", *SMALL, "--out", str(tmp_path / "lbl")]
    sync = atomic._sync

    def full(path):
        if "checkpoint-00000003" in path.name:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(path)

    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(atomic, "_sync", full)
        assert main(command) == 2
    lines = capsys.readouterr().err.splitlines()
    assert "No space left on device" in lines[-1]
    assert sum(line.startswith("jaxlm: ") for line in lines) == 1
    checkpoints = sorted((tmp_path / "lbl").glob("checkpoint-*"))
    assert len(checkpoints) == 2

    # another configuration cannot go on from there
    assert main([*command, "--resume", "--num-features", "7"]) == 2
    assert "num_features" in capsys.readouterr().err
    # the newest checkpoint is torn: the one before it serves, and the end is the same
    (checkpoints[-1] / "state.json").write_text("{")
    # (a test may come or go: it has no part in the training)
    assert main([*command, "--resume", "--test", str(place / "valid.txt")]) == 0
    assert "jaxlm: warning: " in capsys.readouterr().err
    environment = jaxlm.load(tmp_path / "lbl").info["environment"]
    assert (environment["matmul_precision"], environment["jax"]) == ("highest", jax.__version__)
    for found, expected in zip(
        jaxlm.load(tmp_path / "lbl").params, jaxlm.load(place / "lbl").params, strict=True
    ):
        np.testing.assert_array_equal(found, expected)
    assert (tmp_path / "lbl" / "journal.jsonl").read_bytes() == (place / "lbl" / "journal.jsonl").read_bytes()


def test_warnings_are_one_line(tmp_path, capsys):
    (tmp_path / "tiny.txt").write_text("a b\nb a\na a\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (
            main(["train", "kn", "--train", str(tmp_path / "tiny.txt"), "--out", str(tmp_path / "kn")]) == 0
        )
    lines = capsys.readouterr().err.splitlines()
    assert lines
    assert all(line.startswith("jaxlm: warning: ") for line in lines)


def test_a_bug_stays_a_traceback(place, monkeypatch):
    monkeypatch.setattr("jaxlm.cli_use.load", lambda directory: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["info", str(place / "kn")])


@pytest.mark.parametrize("model", ["lbl", "hlbl"])
def test_help_tells_meaning_default_and_unit(model, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["train", model, "--help"])
    assert ended.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "--num-features N feature vector dimensionality (features; default: 100)" in text
    assert "--no-context-across-lines" in text
    assert "learning rate" in text
    assert " in thesis, " in text
    assert ("--copies" in text) == (model == "hlbl")


def test_a_reader_that_goes_away_is_no_error(place):
    command = f"{sys.executable} -m jaxlm.cli sample {place}/kn --lines 2000 | head -n 1"
    done = subprocess.run(
        ["bash", "-c", f"{command}; exit ${{PIPESTATUS[0]}}"], capture_output=True, text=True
    )
    assert done.returncode == 141
    assert done.stderr == ""


def test_ctrl_c_saves_and_says_how_to_go_on(place, capsys, tmp_path):
    arguments = ["train", "lbl", "--train", str(place / "train.txt"), *SMALL, "--epochs", "100000"]
    arguments += ["--out", str(tmp_path / "lbl")]
    command = [sys.executable, "-m", "jaxlm.cli", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "epoch 2" in line:
                process.send_signal(signal.SIGINT)
                break
        rest = process.stderr.read()
    assert process.returncode == 130
    assert rest.splitlines()[-1].startswith(f"jaxlm: stopped by Ctrl-C, all is saved ({tmp_path}/lbl)")
    assert "--resume" in rest
    assert main([*arguments, "--resume", "--max-minutes", "0.001"]) == 0
    assert "give the same command with --resume to go on" in capsys.readouterr().out
