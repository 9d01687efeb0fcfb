"""Text as it comes: raw prose of any language, unknown words, encodings, and what is said about them."""

import bz2
import io
import json
import math
import random
import stat
import sys
from itertools import pairwise

import numpy as np
import pytest

import jaxlm
from accuracy import assert_better_than_unigrams
from jaxlm.cli.main import main
from small_models import SMALL

# pieces of sentences: any of the first, then any of the second, then any of the third
PROSE = {
    "French": (
        ["L'été dernier,", "« Oui »,", "Hélas,"], ["Zoé n'a rien vu", "il a bu du thé", "ma sœur\u00a0: elle lit"],
        ["à la maison.", "près du cœur de la ville.", "ce soir\u202f!"],
    ),
    "Chinese": (
        ["今天\u3000天气 很 好", "明天 下雨", "他 说"], ["， 我们 去 公园", "， 在 家 看书", "， 她 不 来"],
        ["。", "吗 ？", "！"],
    ),
}  # fmt: skip


def write_prose(path, language, seed, lines=150):
    """Write sentences, every fourth of which ends with a word that no other text has."""
    draw = random.Random(seed)
    sentences = (" ".join(map(draw.choice, PROSE[language])) for _ in range(lines))
    rare = (f" nom{seed}x{i}" if i % 4 == 0 else "" for i in range(lines))
    path.write_text("".join(f"{sentence}{word}\n" for sentence, word in zip(sentences, rare, strict=True)))


@pytest.fixture
def said(capsys):
    """Run a command line that must succeed; its standard output and standard error."""

    def run(*argv):
        capsys.readouterr()
        status = main([str(argument) for argument in argv])
        out, err = capsys.readouterr()
        assert status == 0, err
        return out, err

    return run


@pytest.fixture
def stdin(monkeypatch):
    """Put bytes on standard input."""

    def put(content):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(content))))

    return put


@pytest.mark.extended  # tests/end_to_end/ runs these commands on English
@pytest.mark.parametrize("language", PROSE)
def test_the_commands_of_the_readme_pass_on_raw_prose(said, tmp_path, monkeypatch, language):
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(["train", "valid", "test"]):
        write_prose(tmp_path / f"{name}.txt", language, seed)
    tree = ["--tree", "adaptive", "--epsilon", "0.4", "--copies", "4"]
    _, err = said("train", "hlbl", *tree, "--train", "train.txt", "--valid", "valid.txt", "--out", "hlbl", *SMALL)
    assert "hlbl: 38 words seen once become <unk> (" in err
    assert "hlbl: validation text: 9" in err
    said("train", "kn", "--order", 5, "--train", "train.txt", "--out", "kn5")
    words = [(tmp_path / kind / "vocabulary.txt").read_text() for kind in ("hlbl", "kn5")]
    assert words[0] == words[1]
    out, _ = said("eval", "hlbl", "--text", "test.txt", "--mix", "kn5", "--fit-weight-on", "valid.txt", "--json")
    result = json.loads(out)
    assert result["unknown"] == 38
    assert result["events"] - result["events_without_unk"] == 38
    model = jaxlm.load("hlbl")
    words = model.encode((tmp_path / "test.txt").read_text().replace("\n", " <eos> ").split())
    assert result["perplexity"] > 1
    assert_better_than_unigrams(result["perplexity"], np.asarray(words), 0.05)
    _, err = said("next", "hlbl", "the meeting of the")
    assert "next: unknown words, read as <unk>: 'the', 'meeting', 'of'\n" in err
    said("neighbours", "hlbl", "thé" if language == "French" else "公园")
    info = json.loads((tmp_path / "kn5" / "config.json").read_text())
    assert info["corpus"]["left out of the vocabulary"] == {"words": 38, "occurrences": 38, "rule": "seen once"}


@pytest.mark.parametrize("kind", ["kn", "lbl"])
def test_eval_prints_perplexity_with_and_without_unknown_words(place, said, kind):
    out, _ = said("eval", place / kind, "--text", place / "test.txt", "--json")
    result, model = json.loads(out), jaxlm.load(place / kind)
    words = (place / "test.txt").read_text().replace("\n", " <eos> ").split()
    log_p, known = model.event_log_probs(model.encode(words)), [word in model.vocabulary.ids for word in words]
    assert result["unknown"] == known.count(False) > 0
    assert result["perplexity_without_unk"] == pytest.approx(math.exp(-log_p[known].mean()), rel=1e-6)
    out, _ = said("eval", place / kind, "--text", place / "test.txt")
    assert f"  without <unk>  {result['perplexity_without_unk']:.2f} (of {sum(known):,} events)\n" in out


@pytest.mark.parametrize("options", [[], ["--fit-weight-on", "{place}/valid.txt", "--mix", "{place}/lbl"]])
def test_the_model_may_follow_the_texts(place, said, options):
    options = [option.format(place=place) for option in options]
    usual, _ = said("eval", place / "kn", "--text", place / "test.txt", *options)
    assert said("eval", "--text", place / "test.txt", place / "kn", *options)[0] == usual
    if options:
        first = ["eval", "--text", place / "test.txt"]
        assert said(*first, *options[2:], *options[:2], place / "kn")[0] == usual


@pytest.mark.parametrize("kind", ["kn", "lbl"])
def test_score_of_words_adds_up_and_marks_unknown_ones(place, said, stdin, kind):
    text = "The he saw zebras\nit\n"
    stdin(text.encode())
    out, err = said("score", place / kind, "--words", "--json")
    assert "score: an unknown word, read as <unk>: 'zebras'\n" in err
    rows = json.loads(out)["words"]
    assert [row["word"] for row in rows] == text.replace("\n", " <eos> ").split()
    assert [row["word"] for row in rows if row["unknown"]] == ["zebras"]
    assert [sum(row["log10"] for row in part) for part in (rows[:5], rows[5:])] == pytest.approx(
        jaxlm.load(place / kind).scores(["The he saw <unk>", "it"]), rel=1e-5
    )
    assert {"order" in row for row in rows} == {kind == "kn"}
    stdin(text.encode())
    lines = [line.split("\t") for line in said("score", place / kind, "--words")[0].splitlines()]
    assert [line[0] for line in lines] == [row["word"] for row in rows]
    assert lines[3][-1] == "unknown"
    assert lines[0][2:] == (["2"] if kind == "kn" else [])


def test_json_is_all_of_standard_output(place, said, stdin):
    stdin(b"The he saw it\n")
    assert json.loads(said("score", place / "kn", "--json")[0])["lines"] == 1
    assert len(json.loads(said("sample", place / "kn", "--lines", 2, "--json")[0])["lines"]) == 2


def test_sample_takes_a_prefix_a_length_and_a_temperature(place, said):
    out, err = said("sample", place / "kn", "--prefix", "The zebra", "--length", 4, "--lines", 3, "--temperature", 2)
    assert "sample: an unknown word, read as <unk>: 'zebra'\n" in err
    lines = out.splitlines()
    assert all(line.startswith("The zebra ") and len(line.removesuffix(" …").split()) <= 4 for line in lines)
    greedy, _ = said("sample", place / "kn", "--lines", 4, "--temperature", 0.01)
    assert len(set(greedy.splitlines())) == 1


@pytest.fixture(scope="module")
def latin(tmp_path_factory):
    """Train a model of French text in Latin-1, in lower case; return its folder."""
    folder = tmp_path_factory.mktemp("latin")
    write_prose(folder / "u.txt", "French", 0)
    text = (folder / "u.txt").read_text().replace("\u202f", " ").replace("œ", "oe")
    (folder / "t.txt.bz2").write_bytes(bz2.compress(text.encode("latin-1")))
    options = ["--encoding", "latin-1", "--lower", "--out", str(folder / "lbl")]
    assert main(["train", "lbl", "--train", str(folder / "t.txt.bz2"), *options, *SMALL, "--epochs", "1"]) == 0
    return folder


def test_text_is_read_in_the_encoding_of_the_model_or_another(latin, said, stdin):
    (latin / "8.txt").write_text("Il a bu du thé\n", encoding="utf-8")
    (latin / "1.txt").write_text("Il a bu du thé\n", encoding="latin-1")
    for command in (["eval", latin / "lbl", "--text"], ["score", latin / "lbl"]):
        own, err = said(*command, latin / "1.txt")
        other, _ = said(*command, latin / "8.txt", "--encoding", "utf-8")
        assert own == other
        assert "unknown word" not in err
    stdin("il a bu du thé".encode())
    piped, err = said("next", latin / "lbl", "-", "--encoding", "utf-8", "--json")
    assert json.loads(piped) == json.loads(said("next", latin / "lbl", "il a bu du thé", "--json")[0])
    assert err == ""


def test_the_context_on_standard_input_is_one_line(place, stdin, capsys):
    stdin(b"The he\nsaw it\n")
    assert main(["next", str(place / "kn"), "-"]) == 2
    assert "jaxlm: standard input has 2 lines (-) - give one line" in capsys.readouterr().err


def test_questions_are_read_as_the_training_text_was(latin, said):
    upper, lower = (json.loads(said("neighbours", latin / "lbl", word, "--json")[0]) for word in ("Zoé", "zoé"))
    assert upper["neighbours"]["Zoé"] == lower["neighbours"]["zoé"]
    out, err = said("sample", latin / "lbl", "--prefix", "Il A BU", "--lines", 1)
    assert out.startswith("il a bu")
    assert err == ""


def test_a_closed_vocabulary_is_kept_and_names_what_it_lacks(place, said, capsys, tmp_path):
    command = [
        "train",
        "kn",
        "--order",
        2,
        "--train",
        place / "train.txt",
        "--closed-vocabulary",
        "--out",
        tmp_path / "kn",
    ]
    _, err = said(*command)
    assert "kn: closed vocabulary: without <unk>, only texts of these " in err
    assert set(jaxlm.load(tmp_path / "kn").vocabulary.words) == {"<eos>", *(place / "train.txt").read_text().split()}
    (tmp_path / "t.txt").write_text("The zebra\n")
    for command in (["score"], ["eval", "--text"]):
        assert main([command[0], str(tmp_path / "kn"), *command[1:], str(tmp_path / "t.txt")]) == 2
        line = f"jaxlm: unknown word 'zebra' ({tmp_path}/t.txt, line 1) - the vocabulary has no <unk>"
        assert line in capsys.readouterr().err
    assert main(["next", str(tmp_path / "kn"), "The zebra"]) == 2
    assert capsys.readouterr().err.startswith("jaxlm: unknown word 'zebra' - the vocabulary has no <unk>")


def test_a_vocabulary_that_is_not_utf8_is_told_to_be(place, capsys, tmp_path):
    (tmp_path / "v.txt").write_bytes(b"th\xe9\n<eos>\n")
    command = ["train", "kn", "--train", str(place / "train.txt"), "--vocab", str(tmp_path / "v.txt")]
    assert main([*command, "--out", str(tmp_path / "kn")]) == 2
    assert "v.txt, byte offset 2) - write the vocabulary in utf-8" in capsys.readouterr().err


def test_exported_files_can_be_read_by_others_as_the_umask_allows(place, said, tmp_path):
    (tmp_path / "mine").touch()
    for kind, form in (("lbl", "safetensors"), ("lbl", "word2vec"), ("kn", "arpa")):
        said("export", place / kind, "--format", form, "--out", tmp_path / form)
        assert stat.S_IMODE((tmp_path / form).stat().st_mode) == stat.S_IMODE((tmp_path / "mine").stat().st_mode)


def test_orders_are_those_of_the_n_grams_found(place):
    model = jaxlm.load(place / "kn")
    ids = model.encode(["The", "he", "saw", "<unk>"], end=True)
    log_p, order = model.params.score_events(ids)
    np.testing.assert_array_equal(log_p, model.params.event_log_probs(ids))
    text = f"<s> {' <s> '.join((place / 'train.txt').read_text().splitlines())}".split()
    known = {word: word if word in model.vocabulary.ids else "<unk>" for word in text} | {"<s>": "<s>"}
    text, line = [known[word] for word in text], ["<s>", "The", "he", "saw", "<unk>"]
    bigrams = set(pairwise(text))
    assert [n >= 2 for n in order[:4]] == [pair in bigrams for pair in pairwise(line)]


def test_evaluation_on_training_text_is_said(said, tmp_path):
    paths = [tmp_path / name for name in ("one.txt", "two.txt")]
    for seed, path in enumerate(paths):
        write_prose(path, "French", seed)
    one, two = paths
    for name, file in {"valid": f"{tmp_path}/./one.txt", "test": one}.items():
        _, err = said("train", "unigram", "--train", one, f"--{name}", file, "--out", tmp_path / name)
        assert err.count("is trained on, too") == 1
        assert f"--{name} {file} is trained on, too" in err
    _, err = said("train", "unigram", "--train", one, "--valid", two, "--out", tmp_path / "n")
    assert "is trained on, too" not in err
    _, err = said("train", "unigram", "--train", one, two, f"{tmp_path}/./one.txt", "--out", tmp_path / "often")
    assert err.count(f"--train {one} is given 2 times") == 1
    _, err = said("eval", tmp_path / "n", "--text", two, "--mix", tmp_path / "n", "--fit-weight-on", one, two)
    assert f"the shares are fitted to {two}, too" in err
