"""Loading a model: what is refused, in one line, and what loaded models share."""

import json
import re
import shutil
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlm
from jaxfit.errors import UserError
from jaxfit.run_dir.metadata import write_manifest
from jaxlm import models
from jaxlm.cli.main import main
from jaxlm.data.vocabulary import Vocabulary
from jaxlm.model_files import FILES
from jaxlm.models import lbl
from jaxlm.trained_model import Model


@pytest.fixture
def copy(place, tmp_path):
    """Copy a trained model's folder."""

    def make(name):
        shutil.copytree(place / name, tmp_path / name)
        return tmp_path / name

    return make


def change_config(folder, **changes):
    info = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**info, **changes}))
    write_manifest(folder, FILES)


def refusal(folder, **options):
    with pytest.raises(UserError) as refused:
        jaxlm.load(folder, **options)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_an_unknown_kind_is_refused_with_the_known_ones(copy):
    folder = copy("hlbl")
    change_config(folder, model="transformer")
    message = refusal(folder)
    assert "there is no language model 'transformer'" in message
    assert "unigram, gt, kn, class-ngram, cache, lbl, hlbl" in message


def test_the_other_packages_folder_is_refused_and_named(tmp_path, capsys):
    (tmp_path / "config.json").write_text(json.dumps({"format": 1, "model": "pmf", "config": {}, "data": {}}))
    assert "use jaxcf" in refusal(tmp_path)
    assert main(["info", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert err == f"jaxlm: 'pmf' is no language model ({tmp_path}) - if it predicts ratings, use jaxcf\n"


def test_an_unfinished_training_is_refused_unless_asked_for(place, copy, capsys):
    folder = copy("lbl")
    change_config(folder, finished=False)
    assert "has not finished" in refusal(folder)
    assert "--unfinished" in refusal(folder)
    assert jaxlm.load(folder, unfinished=True).log_prob("The").shape
    text = ["--text", str(place / "test.txt")]
    assert main(["eval", str(folder), *text]) == 2
    assert main(["eval", str(folder), *text, "--unfinished"]) == 0
    capsys.readouterr()
    assert main(["info", str(folder)]) == 0
    assert "not finished" in capsys.readouterr().out
    hub = ["export", str(folder), "--format", "hub", "--out", str(folder / "hub")]
    for argv, advised in ((hub, "has not finished"), ([*hub, "--unfinished"], "of a finished model (--unfinished)")):
        assert main(argv) == 2
        said = capsys.readouterr().err
        assert advised in said
        assert said.endswith("by --resume\n")
    shutil.rmtree(folder / "parameters")
    assert "no parameters of a best epoch have been saved yet" in (said := refusal(folder, unfinished=True))
    assert "--max-minutes" in said


@pytest.mark.parametrize("name", ["kn", "lbl", "hlbl"])
def test_a_vocabulary_of_another_size_is_refused(copy, name):
    folder = copy(name)
    with (folder / "vocabulary.txt").open("a") as file:
        file.write("another\t1\n")
    write_manifest(folder, FILES)
    assert "are of different models" in refusal(folder)


@pytest.mark.parametrize(
    ("name", "field"), [("lbl", "num_features"), ("lbl", "context_size"), ("hlbl", "num_features")]
)
def test_parameters_of_other_sizes_are_refused(copy, name, field):
    folder = copy(name)
    config = json.loads((folder / "config.json").read_text())["config"]
    change_config(folder, config={**config, field: config[field] + 1})
    assert "by the configuration (" in refusal(folder)


def test_a_tree_of_another_size_is_refused(copy):
    folder = copy("hlbl")
    config = json.loads((folder / "config.json").read_text())["config"]
    change_config(folder, config={**config, "num_nodes": config["num_nodes"] + 1})
    assert "num_nodes is" in refusal(folder)


@pytest.mark.parametrize("name", ["kn", "lbl"])
def test_a_configuration_of_other_fields_is_refused(copy, name):
    folder = copy(name)
    config = json.loads((folder / "config.json").read_text())["config"]
    change_config(folder, config={**config, "depth": 3})
    message = refusal(folder)
    assert f"the configuration is not that of {name}: " in message
    assert "'depth'" in message


def test_a_missing_field_has_its_default_or_is_named(copy):
    folder = copy("lbl")
    config = json.loads((folder / "config.json").read_text())["config"]
    assert not config.pop("diagonal")
    change_config(folder, config=config)
    assert not jaxlm.load(folder).config.diagonal
    del config["num_words"]
    change_config(folder, config=config)
    assert "the configuration is not that of lbl: num_words is missing" in refusal(folder)


@pytest.mark.parametrize(
    ("part", "name", "value", "shown"),
    [
        ("config", "num_features", "6", '"6"'),
        ("config", "across_lines", 1, "1"),
        ("config", "dropout", None, "null"),
        ("config", "context_size", 0, "0, which is out of bounds"),
        ("config", "num_features", 10**30, "10000000000"),
        ("recipe", "rate", {"*": "0.1"}, "{"),
        ("recipe", "drops", [None], r"\[null\]"),
        ("corpus", "training events", None, "null"),
        ("corpus", "reading", [], r"\[\]"),
    ],
)
def test_values_of_other_types_are_refused(copy, part, name, value, shown):
    folder = copy("lbl")
    stored = json.loads((folder / "config.json").read_text())[part]
    change_config(folder, **{part: {**stored, name: value}})
    assert re.search(rf"not a model's configuration: {name} is {shown}.* \(.*config\.json\)", refusal(folder))


def small_lbl(seed=0, num_words=13):
    """Return a model that was not trained."""
    config = lbl.Config(num_words, num_features=7, context_size=3)
    params = lbl.init(jax.random.key(seed), config, np.ones(num_words))
    vocabulary = Vocabulary(("<eos>", *(f"w{i}" for i in range(num_words - 1))))
    return Model(models.get("lbl"), vocabulary, config, params, {})


def test_a_string_is_no_list_of_words(place):
    model = jaxlm.load(place / "kn")
    assert model.encode(["he", "saw"]).tolist() == [model.vocabulary.ids[word] for word in ("he", "saw")]
    with pytest.raises(UserError, match=r"not as one string - text\.split\(\)"):
        model.encode("he saw")
    for wrong in (3, None):
        with pytest.raises(UserError, match=f"{type(wrong).__name__} is no list of words - give a list of strings"):
            model.log_prob(wrong)


@pytest.mark.parametrize("context", [[3, 4], np.array([3, 4]), ["he", 4], [None], [b"he"]])
def test_ids_are_not_taken_for_words(place, context):
    model = jaxlm.load(place / "kn")
    with pytest.raises(UserError, match=r"a word is a string, and .* give model\.vocabulary\.words\[i\]"):
        model.log_prob(context)


def test_what_texts_of_a_model_share_is_made_once():
    model = small_lbl()
    assert model.texts() is model.texts(model.config)
    assert replace(model).texts() is not model.texts()  # which may be over another tree


def test_models_of_equal_shape_share_what_is_compiled(monkeypatch):
    traced, predicted_vector = [], lbl.predicted_vector
    monkeypatch.setattr(lbl, "predicted_vector", lambda *args: traced.append(args) or predicted_vector(*args))
    one, two = small_lbl(0), small_lbl(1)
    assert not np.array_equal(one.log_prob("w1 w2"), two.log_prob("w1 w2"))
    one.log_prob("w3")
    assert len(traced) == 1


def test_predictions_are_of_full_precision_without_the_command(monkeypatch):
    """By default a GPU or TPU rounds the factors of matrix products."""
    seen, predicted_vector = [], lbl.predicted_vector

    def note(*args):
        seen.append(jax.config.jax_default_matmul_precision)
        return predicted_vector(*args)

    monkeypatch.setattr(lbl, "predicted_vector", note)
    model = small_lbl(num_words=17)
    assert jax.config.jax_default_matmul_precision is None
    model.log_prob("w1")
    model.event_log_probs(np.array([1, 2, 0]))
    assert seen == ["highest", "highest"]


def test_vectors_and_sizes_are_those_of_the_parameters():
    model = small_lbl()
    np.testing.assert_array_equal(model.vectors(), model.params.R)
    assert model.sizes() == {"R": (13, 7), "C": (3, 7, 7), "b": (13,)}
    assert model.num_parameters() == 13 * 7 + 3 * 49 + 13
    assert jnp.asarray(model.params.R).shape == (13, 7)
