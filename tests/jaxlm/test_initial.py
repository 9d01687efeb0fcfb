"""Training that begins from another model's parameters."""

import json

import numpy as np
import pytest

import jaxlm
from jaxlm.cli.main import main
from small_models import SMALL, write_text

FRBM = [*SMALL, "--num-hidden", "8"]


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
        (["--vocab-size", "5"], "its vocabulary is another"),
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


def test_the_same_words_in_another_order_are_refused(trained, tmp_path, capsys):
    """A text has its own counts, by which the words of --vocab are ordered, too."""
    folder, _ = trained
    other = write_text(tmp_path / "other.txt", seed=2)
    argv = ["train", "frbm", "--train", other, *FRBM, "--vocab", str(folder / "frbm" / "vocabulary.txt")]
    assert main([*argv, "--init", str(folder / "frbm"), "--out", str(tmp_path / "m")]) == 2
    *_, error = capsys.readouterr().err.splitlines()
    assert error.startswith("jaxlm: its words are in another order")
    assert error.endswith("- train on that text")


def test_models_without_shared_parameters_are_refused(trained, tmp_path, capsys):
    _, text = trained
    assert main(["train", "kn", "--train", text, "--out", str(tmp_path / "kn")]) == 0
    argv = ["train", "frbm", "--train", text, *FRBM, "--init", str(tmp_path / "kn"), "--out", str(tmp_path / "m")]
    assert main(argv) == 2
    assert "none of the parameters" in capsys.readouterr().err
