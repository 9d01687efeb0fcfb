"""Mistakes of users of `jaxlm`, and failures: damaged models, a full disk, warnings, Ctrl-C."""

import errno
import gzip
import shutil
import signal
import subprocess
import sys
import warnings

import jax
import numpy as np
import pytest

import jaxlm
from jaxfit.run_dir import atomic
from jaxlm.cli.main import main
from small_models import SMALL

NOTES = ("<unk>", "validation text: ", "is trained on, too")  # on the text


@pytest.fixture
def complaint(capsys):
    """Run a command line that must fail as a user's mistake; its one line, the last, after notes on the text."""

    def run(*argv):
        capsys.readouterr()
        status = main([str(argument) for argument in argv])
        out, err = capsys.readouterr()
        assert status == 2, err
        assert out == ""
        *notes, line = err.splitlines()
        assert all(any(said in note for said in NOTES) for note in notes), err
        assert line.startswith("jaxlm: ")
        return line

    return run


def bad_files(folder):
    folder.mkdir()
    (folder / "empty.txt").write_text("")
    (folder / "latin.txt").write_bytes("The he saw it\ncaf\xe9\n".encode("latin-1"))
    (folder / "one.txt").write_text("word word\nword\n")
    (folder / "word.txt").write_text("he\n")
    (folder / "codes.txt").write_text("The\t01\nhe\t00\nsaw\t1\n")
    (folder / "twice.txt").write_text("The\n<eos>\nThe\n")
    (folder / "damaged.gz").write_bytes(gzip.compress(b"The he saw it\n" * 100)[:-20])
    return folder


TRAIN_MISTAKES = {
    "corpus of one word": ("kn --train {bad}/one.txt", "fewer than two different words"),
    "empty file": ("kn --train {bad}/empty.txt", "the file is empty"),
    "invalid UTF-8": ("lbl --train {bad}/latin.txt", "byte offset 17"),
    "duplicate word": ("kn --train {ok} --vocab {bad}/twice.txt", "duplicate word 'The'"),
    "order 0": ("kn --train {ok} --order 0", "invalid value '0' (--order) - give a whole number from 1 to 9"),
    "copies 0": ("hlbl --train {ok} --copies 0", "(--copies)"),
    "directory for a file": ("lbl --train {bad}", "a directory was given instead of a file"),
    "directory for a test file": ("kn --train {ok} --test {bad}", "a directory was given instead of a file"),
    "no such file": ("kn --train {bad}/nothing.txt", "there is no such file"),
    "a file without a name": ("kn --train ''", "there is no such file ('') - check the name"),
    "no such validation file": ("kn --train {ok} --valid {bad}/nothing.txt", "there is no such file"),
    "damaged gzip": ("kn --train {bad}/damaged.gz", "the gzip file is damaged"),
    "mistyped option": ("kn --train {ok} --ordr 3", "there is no option --ordr (jaxlm train kn) - did you mean"),
    "opposite of an option": ("kn --train {ok} --no-interpolated", "(jaxlm train kn) - did you mean --backoff?"),
    "opposite of a value": ("kn --train {ok} --no-valid", "(jaxlm train kn) - see jaxlm train kn --help"),
    "no such option": ("lbl --train {ok} --foo 3", "there is no option --foo (jaxlm train lbl) - see jaxlm train lbl"),
    "option of other models": (
        "docnade --train {ok} --num-features 9", "(jaxlm train docnade) - see jaxlm train docnade --help"
    ),
    "option of another model": ("kn --train {ok} --copies 2", "there is no option --copies"),
    "opposite options": ("kn --train {ok} --backoff --interpolated", "not allowed with"),
    "options that contradict, before data": ("lstm --train {bad}/nothing.txt --objective tree", "give --no-tied"),
    "two vocabularies": ("kn --train {ok} --vocab-size 9 --min-count 2", "not allowed with"),
    "no number": ("kn --train {ok} --order three", "(--order)"),
    "unknown model": ("knn --train {ok}", "there is no model 'knn' (jaxlm train) - did you mean kn?"),
    "unknown encoding": ("kn --train {ok} --encoding klingon", "unknown encoding 'klingon'"),
    "unknown tree": ("hlbl --train {ok} --tree balancd", "did you mean balanced?"),
    "a tree as text": ("hlbl --train {ok} --valid {ok} --tree {bad}/codes.txt", "a tree written as text, for people"),
    "closed vocabulary": ("kn --train {ok} --valid {bad}/one.txt --closed-vocabulary", "unknown word 'word'"),
    "closed vocabulary of a size": ("kn --train {ok} --closed-vocabulary --vocab-size 9", "not allowed with"),
    "no tree in the file": ("hlbl --train {ok} --valid {ok} --tree {ok}", "not a tree file"),
    "tree options for a tree file": ("hlbl --train {ok} --tree {ok} --copies 2", "--copies"),
    "bootstrap of another model": ("hlbl --train {ok} --valid {ok} --bootstrap {place}/kn", "only an hlbl predicts"),
    "unknown parameter": ("lbl --train {ok} --rate Z=1", "no parameter is called 'Z' (--rate)"),
    "rate that is none": ("lbl --train {ok} --rate fast", "'fast' is not a number (--rate)"),
    "unknown optimizer": ("lbl --train {ok} --optimizer sdg", "did you mean sgd?"),
    "too many devices": ("lbl --train {ok} --devices 99", "99 devices asked for"),
    "devices that do not divide": ("lbl --train {ok} --devices 3 --batch-size 100", "a multiple of 3"),
    "dropout of all": ("lbl --train {ok} --dropout 1", "below 1"),
    "options of the default data": ("kn --lower", "give --train FILE"),
    "an option of another objective": (
        "lbl --train {ok} --num-noise 5",
        "no effect with the objective softmax (--num-noise) - leave it out, or give --objective nce or importance",
    ),
    "a power of noise that is no number of float32": ("skipgram --train {ok} --noise-power 60", "(--noise-power)"),
    "the same for vectors": ("vlbl --train {ok} --noise-power 60", "give a number from 0 to 10"),
    "the same for outputs": ("lbl --train {ok} --objective nce --noise-power 60", "give a number from 0 to 10"),
    "steps without a chain": ("frbm --train {ok} --objective likelihood --cd-steps 7", "--objective cd or mean-field"),
    "a test of vectors": ("skipgram --train {ok} --test {ok}", "there is no option --test"),
    "a tree of vectors": ("skipgram --train {ok} --tree random", "the objective negative has no tree (--tree)"),
    "passes of another method": ("class-ngram --train {ok} --method brown --passes 3", "give --method exchange"),
    "replicas of one tree": ("hlbl --train {ok} --tree random --replicate", "give --copies of 2 or more"),
    "one variance of no Gaussians": (
        "hlbl --train {ok} --tree random --shared-variance",
        "no effect with the tree random (--shared-variance) - leave it out, or give --tree balanced or adaptive or",
    ),
    "a window of no topics": ("lbl --train {ok} --topic-window 7", "give --num-topics of 1 or more"),
    "patience of a cosine": ("lstm --train {ok} --valid {ok} --patience 3", "all epochs are run (--patience)"),
    "drops without a best epoch": ("glove --train {ok} --valid {ok} --drops 0.1", "(--drops)"),
    "patience without a best epoch": ("glove --train {ok} --valid {ok} --patience 7", "(--patience)"),
    "validation of a word": ("cbow --train {ok} --valid {bad}/word.txt", "near one another (validation text)"),
    "standard input twice": ("kn --train {ok} --vocab - --valid -", "standard input cannot be read twice (-)"),
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
    "train kn --train {place}/train.txt --out {place}/train.txt": "a file was given instead of a directory",
    "train kn --train {place}/train.txt --out {place}/kn": "a model is there already: kn",
    "train kn --train {place}/train.txt --out {place}/lbl": "a model is there already: lbl",
    "train lbl --train {place}/train.txt --out {place}/lbl": "add --resume to go on",
    "train --train {place}/train.txt kn": "--train is before MODEL (jaxlm train) - write MODEL first",
    "eval {place}/kn": "--text is missing",
    "eval --text {place}/test.txt {place}/kn.arpa": "DIR is missing (jaxlm eval) - --text takes all names after it",
    "eval {place}/nothing --text {place}/test.txt": "no model here: the path does not exist",
    "eval {place} --text {place}/test.txt": "no model here",
    "eval {place}/kn --text {place}/nothing.txt": "there is no such file",
    "eval {place}/kn --text {place}": "a directory was given instead of a file",
    "eval {place}/test.txt --text {place}/test.txt": "ARPA",
    "eval {place}/kn --text {place}/test.txt --weight 0.5": "no second model",
    "eval {place}/kn --text {place}/test.txt --mix {place}/lbl --weight 2": "(--weight)",
    "eval {place}/kn --text {place}/test.txt --mix {place}/lbl --mix {place}/lbl --weight 0.2": "and there are 3",
    "score {place}/kn {place}": "a directory was given instead of a file",
    "next {place}/kn The he": "'he' is one argument too many",
    "next {place}/kn The --top 0": "(--top)",
    "neighbours {place}/lbl nobdy": "did you mean 'nobody'?",
    "neighbours {place}/kn he": "neighbours needs word vectors; kn has none ({place}/kn) - use lbl, hlbl,",
    "neighbours {place}/lbl he --vectors Q": "lbl has no word vectors 'Q' (--vectors) - leave it out: it has one set",
    "tree {place}/lbl": "tree needs a tree over words; lbl has none ({place}/lbl) - use hlbl, docnade or",
    "tree {place}/hlbl --out {place}": "a directory was given instead of a file",
    "export {place}/kn": "--format is missing",
    "export {place}/kn --format aprp --out {place}/x": "did you mean arpa?",
    "export {place}/lbl --format arpa --out {place}/x": "needs n-grams; lbl has none ({place}/x) - use unigram,",
    "export {place}/kn --format word2vec --out {place}/x": "word2vec needs word vectors; kn has none",
    "export {place}/lbl --format safetensors --vectors R --out {place}/x": "choose word2vec or word2vec-binary",
    "export {place}/kn --format safetensors --out {place}/x": "not for kn ({place}/x) - use --format arpa, or",
    "export {place}/kn --format arpa --out {place}": "a directory was given instead of a file",
}


TWICE = ("eval {place}/kn --text - -", "eval {place}/kn --text - --mix {place}/lbl --fit-weight-on -",
         "complete {place}/kn - --answers -", "rescore {place}/kn - --references -",
         "retrieve {place}/lbl - --database -", "train kn --train - --vocab - --out {place}/x",
         "train lda --train - --format text --stop-words - --out {place}/x")  # fmt: skip
MISTAKES |= dict.fromkeys(TWICE, "standard input cannot be read twice (-) - name a file for one of them")


@pytest.mark.parametrize("command", MISTAKES)
def test_a_mistake_is_one_line_and_changes_nothing(place, complaint, command):
    before = {path: path.stat().st_mtime_ns for path in place.rglob("*")}
    assert MISTAKES[command].format(place=place) in complaint(*command.format(place=place).split())
    assert before == {path: path.stat().st_mtime_ns for path in place.rglob("*")}


@pytest.mark.parametrize("command", [["next"], ["sample", "--prefix"]])
def test_words_of_a_line_have_no_line_end_inside(place, complaint, command):
    assert "a line has a line end inside" in complaint(command[0], place / "kn", *command[1:], "The\nhe")


def test_a_damaged_model_is_named(place, complaint, call, tmp_path):
    for kind, file in (("lbl", "parameters/state.json"), ("kn", "ngram.npz"), ("hlbl", "tree.npz")):
        copy = tmp_path / kind
        subprocess.run(["cp", "-r", place / kind, copy], check=True)
        content = (copy / file).read_bytes()
        (copy / file).write_bytes(content[: len(content) // 2])
        assert "damaged" in complaint("eval", copy, "--text", place / "test.txt")


@pytest.mark.parametrize("kind", ["kn", "lbl", "hlbl"])
def test_exchanged_words_are_damage(place, complaint, kind, tmp_path):
    shutil.copytree(place / kind, tmp_path / kind)
    path = tmp_path / kind / "vocabulary.txt"
    *others, one, two = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*others, two, one]))
    line = complaint("eval", tmp_path / kind, "--text", place / "test.txt")
    assert "the model is damaged: vocabulary.txt is missing or changed" in line


def test_models_of_different_words_cannot_be_mixed(place, call, complaint, tmp_path):
    call("train", "kn", "--train", place / "train.txt", "--vocab-size", 10, "--out", tmp_path / "kn")
    line = complaint("eval", place / "lbl", "--text", place / "test.txt", "--mix", tmp_path / "kn")
    assert "different vocabularies" in line
    call("train", "unigram", "--train", place / "train.txt", "--closed-vocabulary", "--out", tmp_path / "closed")
    line = complaint("eval", place / "lbl", "--text", place / "test.txt", "--mix", tmp_path / "closed")
    assert "'<unk>' is only in" in line
    assert "train both with --closed-vocabulary, or neither" in line


def test_a_full_disk_loses_nothing_and_training_resumes(place, capsys, monkeypatch, tmp_path):
    files = [argument for name in ("train", "valid") for argument in (f"--{name}", str(place / f"{name}.txt"))]
    command = ["train", "lbl", *files, "--min-count", "2", *SMALL, "--out", str(tmp_path / "lbl")]
    command += ["--checkpoint-minutes", "0"]
    sync = atomic._sync

    def full(path):
        if "checkpoint-00000003" in str(path):
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

    # another configuration cannot be resumed from there
    assert main([*command, "--resume", "--num-features", "7"]) == 2
    assert "num_features" in capsys.readouterr().err
    # the newest checkpoint is torn: the one before it is used, and the result is the same
    (checkpoints[-1] / "state.json").write_text("{")
    # (test text may be added: it has no part in the training)
    assert main([*command, "--resume", "--test", str(place / "valid.txt")]) == 0
    assert "jaxlm: warning: " in capsys.readouterr().err
    environment = jaxlm.load(tmp_path / "lbl").info["environment"]
    assert (environment["matmul_precision"], environment["jax"]) == ("highest", jax.__version__)
    for found, expected in zip(jaxlm.load(tmp_path / "lbl").params, jaxlm.load(place / "lbl").params, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert (tmp_path / "lbl" / "journal.jsonl").read_bytes() == (place / "lbl" / "journal.jsonl").read_bytes()


def test_warnings_are_one_line(tmp_path, capsys):
    (tmp_path / "tiny.txt").write_text("a b\nb a\na a\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert main(["train", "kn", "--train", str(tmp_path / "tiny.txt"), "--out", str(tmp_path / "kn")]) == 0
    note, *lines = capsys.readouterr().err.splitlines()
    assert note.startswith("kn: all words of the training text are kept")
    assert lines
    assert all(line.startswith("jaxlm: warning: ") for line in lines)


def test_a_bug_stays_a_traceback(place, monkeypatch):
    monkeypatch.setattr("jaxlm.cli.describe.load", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["info", str(place / "kn")])


def test_a_closed_standard_output_is_no_error(place):
    command = f"{sys.executable} -m jaxlm.cli.main sample {place}/kn --lines 2000 | head -n 1"
    done = subprocess.run(["bash", "-c", f"{command}; exit ${{PIPESTATUS[0]}}"], capture_output=True, text=True)
    assert done.returncode == 141
    assert done.stderr == ""


def test_ctrl_c_saves_and_says_how_to_resume(place, capsys, tmp_path):
    arguments = ["train", "lbl", "--train", str(place / "train.txt"), *SMALL, "--epochs", "100000"]
    arguments += ["--out", str(tmp_path / "lbl")]
    command = [sys.executable, "-m", "jaxlm.cli.main", *arguments]
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


def test_a_file_that_is_no_tree_is_refused_before_the_text_is_read(tmp_path, capsys):
    (tmp_path / "codes.txt").write_text("not a tree\n")
    argv = [
        "train",
        "hlbl",
        "--train",
        tmp_path / "none.txt",
        "--tree",
        tmp_path / "codes.txt",
        "--out",
        tmp_path / "m",
    ]
    assert main([str(part) for part in argv]) == 2
    assert capsys.readouterr().err.startswith(f"jaxlm: not a tree file, or a damaged one ({tmp_path / 'codes.txt'}) - ")
