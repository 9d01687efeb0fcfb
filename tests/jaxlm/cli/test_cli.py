"""The `jaxlm` command: every subcommand on a tiny text, its JSON, mixtures, its help."""

import gzip
import io
import json
import math
import shutil
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file

import jaxlm
from jaxlm.cli.main import main
from jaxlm.tasks.evaluate import LN10
from jaxlm.trees import file as tree_file
from small_models import SMALL

MODELS = ["unigram", "gt", "kn", "lbl", "hlbl"]


def stdin(content):
    return io.TextIOWrapper(io.BufferedReader(io.BytesIO(content)))


@pytest.fixture
def call_json(call):
    """Do the same with --json; read the last line of standard output, with nothing after it."""

    def run(*argv):
        out = call(*argv, "--json")
        assert out.endswith("}\n")
        found = json.loads(out.splitlines()[-1])
        assert found["command"] == argv[0]
        if argv[0] != "train":
            assert found["directory"] == str(argv[1])
            assert found["model"] == jaxlm.load(argv[1]).name
        return found

    return run


@pytest.fixture
def complaint_of(capsys):
    """Run a command line that must fail as a user's mistake; what it says."""

    def run(*argv):
        assert main([str(argument) for argument in argv]) == 2
        return capsys.readouterr().err

    return run


@pytest.mark.parametrize("kind", MODELS)
def test_eval_sums_the_models_event_log_probabilities(place, call, call_json, kind):
    result = call_json("eval", place / kind, "--text", place / "test.txt")
    words = (place / "test.txt").read_text().replace("\n", " <eos> ").split()
    assert result["events"] == len(words)
    model = jaxlm.load(place / kind)
    assert result["unknown"] == sum(word not in model.vocabulary.ids for word in words) > 0
    expected = model.event_log_probs(model.encode(words)).sum()
    assert result["log_prob"] == pytest.approx(expected, rel=1e-6)
    assert result["perplexity"] == pytest.approx(math.exp(-expected / len(words)), rel=1e-6)
    assert f"perplexity       {result['perplexity']:.2f}" in call("eval", place / kind, "--text", place / "test.txt")


@pytest.mark.parametrize("kind", MODELS)
def test_score_is_the_sum_over_each_line(place, call, monkeypatch, kind):
    sentences = ["The he saw it", "", "The nobody broke novelties"]
    monkeypatch.setattr(sys, "stdin", stdin("\n".join(sentences).encode()))
    scores = [float(line) for line in call("score", place / kind).splitlines()]
    model = jaxlm.load(place / kind)
    np.testing.assert_allclose(scores, model.scores(sentences), atol=2e-6)
    # word by word, each from the whole distribution after those before it on the line
    words = [word if word in model.vocabulary.ids else "<unk>" for word in sentences[2].split()]
    chain = sum(model.log_prob(words[:i])[model.vocabulary.ids[word]] for i, word in enumerate([*words, "<eos>"]))
    assert scores[2] == pytest.approx(chain / LN10, rel=1e-5)


@pytest.mark.parametrize("kind", MODELS)
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
    rows = call_json("sample", place / kind, "--lines", 2, "--seed", 5)
    marks = ["" if ended else " …" for ended in rows["ended"]]
    assert drawn.splitlines() == [line + mark for line, mark in zip(rows["lines"], marks, strict=True)]
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


def test_tree_is_described_written_and_used_again(place, call, call_json, tmp_path):
    found = call_json("tree", place / "hlbl", "--out", tmp_path / "codes.txt")
    lines = [line.split("\t") for line in (tmp_path / "codes.txt").read_text().splitlines()]
    assert sum(2.0 ** -len(code) for _, code in lines) == 1  # a whole binary tree, by Kraft
    assert found["num_nodes"] == len(lines) - 1
    model = jaxlm.load(place / "hlbl")
    for word, code in lines:
        node = 0
        for d in code:
            node = model.structure.children[node, 0 if d == "1" else 1]  # d = 1 is the left child (§4.3)
        assert ~node == model.vocabulary.ids[word]
    rate = model.vocabulary.counts / model.vocabulary.counts.sum()
    codes = np.bincount([model.vocabulary.ids[word] for word, _ in lines], minlength=len(rate))
    assert found["mean_codes"] == pytest.approx(rate @ codes)
    assert "non-leaf nodes" in call("tree", place / "hlbl", "--out", tmp_path / "tree.npz")
    files = [argument for name in ("train", "valid") for argument in (f"--{name}", place / f"{name}.txt")]
    command = ["train", "hlbl", *files, "--min-count", 2, *SMALL, "--epochs", 1, "--out", tmp_path / "again"]
    call(*command, "--tree", tmp_path / "tree.npz")
    np.testing.assert_array_equal(jaxlm.load(tmp_path / "again").structure.children, model.structure.children)
    assert not (tmp_path / "again" / "bootstrap").exists()
    assert tree_file.words_of(tmp_path / "tree.npz") == model.vocabulary.words


@pytest.mark.parametrize("kind", MODELS)
def test_info_has_the_models_name_and_words(place, call, call_json, kind):
    found = call_json("info", place / kind)
    assert found["directory"] == str(place / kind)
    assert found["model"] == kind
    assert found["words"] == len(jaxlm.load(place / kind).vocabulary)
    assert f"model         {kind}, " in call("info", place / kind)


def test_info_says_which_parameters_are_scalars(place, call, monkeypatch):
    monkeypatch.setattr("jaxlm.trained_model.Model.sizes", lambda model: {"R": (13, 7), "scale": ()})
    assert "sizes         R 13x7, scale scalar\n" in call("info", place / "lbl")


def test_exported_files_hold_the_models_numbers(place, call, call_json, tmp_path):
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
    np.testing.assert_array_equal(arrays["tree"], model.structure.children)

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


def test_more_than_two_models_are_mixed_with_equal_or_fitted_weights(place, call, call_json, tmp_path):
    call("train", "cache", "--train", place / "train.txt", "--vocab", place / "kn" / "vocabulary.txt", "--out",
         tmp_path / "cache")  # fmt: skip
    folders = [place / "lbl", place / "kn", tmp_path / "cache"]
    options = ["--text", place / "test.txt", "--mix", folders[1], "--mix", folders[2]]
    p = np.exp([_events(folder, place / "test.txt") for folder in folders])
    equal = call_json("eval", folders[0], *options)
    assert equal["weights"] == pytest.approx([1 / 3] * 3)
    assert equal["mix"] == [str(folder) for folder in folders[1:]]
    assert equal["perplexity"] == pytest.approx(math.exp(-np.log(p.mean(axis=0)).mean()), rel=1e-5)
    assert equal["perplexities"] == pytest.approx(np.exp(-np.log(p).mean(axis=1)), rel=1e-5)
    fitted = call_json("eval", folders[0], *options, "--fit-weight-on", place / "valid.txt")
    q = np.exp([_events(folder, place / "valid.txt") for folder in folders])
    shares = (q / (fitted["weights"] @ q)).mean(axis=1)  # 1 for models with a weight, at most 1 for others
    assert shares.max() < 1 + 1e-4
    assert fitted["weights"] @ shares == pytest.approx(1)
    assert fitted["perplexity"] == pytest.approx(math.exp(-np.log(fitted["weights"] @ p).mean()), rel=1e-5)
    assert f"{fitted['weights'][2]:.4f} of {folders[2]} (fitted)" in call(
        "eval", folders[0], *options, "--fit-weight-on", place / "valid.txt"
    )


def _events(directory, file):
    model = jaxlm.load(directory)
    return model.event_log_probs(model.encode(file.read_text().replace("\n", " <eos> ").split()))


def test_models_that_number_the_same_words_differently_can_be_mixed(place, call_json, tmp_path):
    words = (place / "kn" / "vocabulary.txt").read_text().splitlines()
    (tmp_path / "words.txt").write_text("".join(f"{line.split()[0]}\n" for line in reversed(words)))
    reordered = tmp_path / "other.txt"
    reordered.write_text((place / "valid.txt").read_text() * 2 + (place / "train.txt").read_text())
    call_json("train", "kn", "--train", reordered, "--vocab", tmp_path / "words.txt", "--out", tmp_path / "kn")
    other = jaxlm.load(tmp_path / "kn")
    assert other.vocabulary.words != jaxlm.load(place / "kn").vocabulary.words
    mixed = call_json("eval", place / "lbl", "--text", place / "test.txt", "--mix", tmp_path / "kn", "--weight", 0)
    alone = call_json("eval", tmp_path / "kn", "--text", place / "test.txt")
    assert mixed["perplexity"] == pytest.approx(alone["perplexity"], rel=1e-9)


def test_train_prints_results_and_the_origin_of_validation_text(place, call_json, capsys, tmp_path):
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
    lines = (place / "train.txt").read_text().splitlines(keepends=True)
    (tmp_path / "end.txt").write_text("".join(lines[-6:]))
    log_probs = _events(tmp_path / "lbl", tmp_path / "end.txt")
    assert result["valid"]["perplexity"] == pytest.approx(np.exp(-np.mean(log_probs)), rel=1e-5)
    carved = call_json("eval", tmp_path / "lbl", "--text", tmp_path / "end.txt")
    assert carved["perplexity"] == pytest.approx(result["valid"]["perplexity"], rel=1e-5)
    assert carved["events"] == result["valid"]["events"]
    later = call_json("eval", tmp_path / "lbl", "--text", place / "test.txt")
    assert {name: later[name] for name in result["test"]} == result["test"]


def test_default_data_is_used_with_a_note(tmp_path, capsys):
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


@pytest.mark.parametrize("model", ["lbl", "hlbl"])
def test_help_shows_meaning_default_and_unit(model, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["train", model, "--help-all"])
    assert ended.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "--num-features N feature vector dimensionality (features; default: 100)" in text
    assert "--no-context-across-lines" in text
    assert "learning rate" in text
    assert " in thesis, " in text
    assert ("--copies" in text) == (model == "hlbl")


def test_texts_that_are_named_one_by_one_add_up(place, call, tmp_path):
    together, apart = tmp_path / "together", tmp_path / "apart"
    files = [place / "train.txt", place / "valid.txt"]
    call("train", "kn", "--train", *files, "--min-count", 2, "--out", together)
    call("train", "kn", "--train", files[0], "--train", files[1], "--min-count", 2, "--out", apart)
    assert (apart / "config.json").read_bytes() == (together / "config.json").read_bytes()


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_card_says_what_a_model_is_and_loads_it(place, kind):
    text = (place / kind / "README.md").read_text()
    assert f"\n# {kind}: " in text
    for part in ("| training events | ", "| jax-mnih | ", f"jaxlm eval {place / kind} --text test.txt"):
        assert part in text
    assert "| perplexity | " in text
    assert ("jaxlm neighbours" in text) == (kind in ("lbl", "hlbl"))
    exec(text.partition("```python")[2].partition("```")[0], {})


def test_a_learning_curve_is_of_what_people_read(place, call, call_json, complaint_of, tmp_path):
    found = call_json("info", place / "lbl", "--plot", tmp_path / "lbl.png")
    assert found["sizes"]["R"] == [found["words"], 6]
    for line in found["history"]:
        assert line["shown"]["validation perplexity"] == pytest.approx(math.exp(line["valid"]))
    assert (tmp_path / "lbl.png").read_bytes().startswith(b"\x89PNG")
    assert "there is no learning curve" in complaint_of("info", place / "kn", "--plot", tmp_path / "kn.png")


def test_a_tree_that_is_learned_keeps_the_number_of_epochs(place, complaint_of, tmp_path):
    shutil.copytree(place / "hlbl", tmp_path / "hlbl")
    files = [argument for name in ("train", "valid") for argument in (f"--{name}", place / f"{name}.txt")]
    again = ["train", "hlbl", *files, "--min-count", 2, *SMALL, "--tree", "adaptive", "--epsilon", 0.3, "--copies", 2]
    said = complaint_of(*again, "--no-anneal", "--epochs", 9, "--resume", "--out", tmp_path / "hlbl")
    assert "its tree is built from a model of" in said
    assert "not of 9" in said


def test_a_card_has_the_scores_of_every_set(place, call, tmp_path):
    texts = [argument for name in ("train", "valid", "test") for argument in (f"--{name}", place / "valid.txt")]
    call("train", "lbl", *texts, *SMALL, "--epochs", 1, "--out", tmp_path / "lbl")
    assert "| perplexity_without_unk | - | " in (tmp_path / "lbl" / "README.md").read_text()
