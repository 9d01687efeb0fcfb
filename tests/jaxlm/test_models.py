"""The registry: names, records, capabilities, and what importing them costs."""

import dataclasses
import pickle
import subprocess
import sys

import pytest

from jaxfit.errors import UserError
from jaxlm import models, word_vectors
from jaxlm.capabilities import Embeds, HasNGrams, PredictsWords
from jaxlm.contract import BySGD, LanguageModel
from jaxlm.ngram import arpa


@pytest.mark.parametrize("name", models.names())
def test_each_record_has_the_name_of_its_line(name):
    model = models.get(name)
    assert model.name == name
    assert model.about
    assert model.source
    assert dataclasses.is_dataclass(model.config)
    if isinstance(model.fitting, BySGD):
        assert "tuned" in model.recipes


def test_records_are_pickled_by_name():
    for record in (models.get("lbl"), arpa.MODEL, word_vectors.MODEL):
        assert len(pickle.dumps(record)) < 100
        assert pickle.loads(pickle.dumps(record)) is record
    changed = dataclasses.replace(models.get("lbl"), capabilities=())
    with pytest.raises(pickle.PicklingError, match="another record of the name lbl"):
        pickle.dumps(changed)
    with pytest.raises(UserError, match="no language model 'mine'"):
        pickle.dumps(dataclasses.replace(changed, name="mine"))
    assert "arpa" not in models.names()


def test_an_unknown_name_is_an_error_that_suggests_one_or_lists_the_known_ones():
    with pytest.raises(UserError, match="no language model 'lbm' - did you mean lbl"):
        models.get("lbm")
    with pytest.raises(UserError, match="no language model 'bert' - choose from unigram, gt, kn, class-ngram, cache"):
        models.get("bert")


def test_a_missing_capability_is_an_error_that_says_who_has_it():
    vectors_only = LanguageModel(
        name="vectors",
        about="vectors without a distribution",
        source="",
        config=object,
        fitting=None,
        capabilities=(Embeds(lambda params: params),),
    )
    assert models.require(vectors_only, Embeds, "neighbours") is vectors_only.capabilities[0]
    with pytest.raises(UserError) as refused:
        models.require(vectors_only, PredictsWords, "eval", "out")
    *others, last = [name for name in models.names() if models.get(name).capability(PredictsWords)]
    assert str(refused.value) == (
        f"eval needs next-word probabilities; vectors has none (out) - use {', '.join(others)} or {last}"
    )
    with pytest.raises(UserError, match="use unigram, gt or kn"):
        models.require(vectors_only, HasNGrams, "it")


def test_fields_from_data_are_those_without_a_default():
    assert models.get("lbl").fields_from_data == ("num_words",)
    assert models.get("hlbl").fields_from_data == ("num_words", "num_nodes")
    assert models.get("kn").fields_from_data == ()


@pytest.mark.parametrize(
    "command",
    [
        "--help",
        "train kn --help",
        "train kn --train {place}/train.txt --test {place}/test.txt --min-count 2 --out {out}",
        "train class-ngram --num-classes 5 --train {place}/train.txt --test {place}/test.txt --out {out}",
        "train cache --train {place}/train.txt --test {place}/test.txt --out {out}",
        "eval {place}/kn --text {place}/test.txt --mix {place}/gt --fit-weight-on {place}/valid.txt",
        "score {place}/kn {place}/test.txt",
        "next {place}/kn The",
        "sample {place}/kn",
        "info {place}/kn",
        "export {place}/kn --format arpa --out {out}.arpa",
    ],
)
def test_help_and_ngram_commands_do_not_import_jax(place, tmp_path, command):
    arguments = command.format(place=place, out=tmp_path / "out").split()
    program = f"""
import sys
from jaxlm.cli.main import main
try:
    status = main({arguments!r})
except SystemExit as end:
    status = end.code
heavy = [name for name in ("jax", "optax", "orbax") if name in sys.modules]
assert not heavy, heavy
sys.exit(status)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
