"""Training through the Python API: its results in files, its stages, its precision, its hashing."""

import dataclasses
import hashlib
import json
import re
import signal

import jax
import numpy as np
import pytest

import jaxlm
from jaxfit.errors import UserError
from jaxfit.process import signals
from jaxfit.recipe import Recipe
from jaxfit.run_dir.run import Run
from jaxlm.cli.main import main
from jaxlm.data import corpus as corpora
from jaxlm.data import user_text
from jaxlm.models.hlbl.tree import TreeOptions
from jaxlm.ngram import model as ngrams
from jaxlm.train_by_sgd import STRUCTURE
from jaxlm.training import train
from jaxlm.trees.build import build
from small_models import SMALL

RECIPE = Recipe(optimizer="sgd", batch_size=100, epochs=1, rate={"*": 0.01}, decay={"*": 0.0})
CONFIG = {"num_features": 4, "context_size": 2}


@pytest.fixture
def corpus(place):
    return user_text.from_files([str(place / "train.txt")], [str(place / "valid.txt")], min_count=2).corpus


@pytest.mark.parametrize(
    ("part", "said"),
    [("train", "there are no examples (training data)"), ("valid", "there is nothing to score (validation data)")],
)
def test_data_without_events_are_refused_before_anything_is_written(part, said, corpus, tmp_path):
    nothing = corpus._replace(**{part: np.zeros(0, np.int32)})
    with pytest.raises(UserError, match=re.escape(said)):
        train("lbl", nothing, tmp_path / "out", recipe=RECIPE, config=CONFIG)
    assert not (tmp_path / "out").exists()


def test_time_that_runs_out_in_the_first_stage_leaves_no_model(place, corpus, tmp_path, capsys):
    trained = train(
        "hlbl", corpus, tmp_path / "api", recipe=RECIPE, config=CONFIG, structure=TreeOptions("balanced"),
        run=Run(max_minutes=0.0),
    )  # fmt: skip
    assert trained.model is None
    assert trained.fitted is None
    assert trained.stopped == "max-minutes"
    with pytest.raises(UserError):
        jaxlm.load(tmp_path / "api")

    command = ["train", "hlbl", "--train", str(place / "train.txt"), "--valid", str(place / "valid.txt")]
    command += ["--test", str(place / "test.txt"), *SMALL, "--min-count", "2"]
    command += ["--out", str(tmp_path / "cli")]
    assert main([*command, "--max-minutes", "0"]) == 0
    said = capsys.readouterr().out
    assert "not trained yet" in said
    assert "--resume" in said
    assert "perplexity" not in said
    assert main(["eval", str(tmp_path / "cli"), "--text", str(place / "test.txt")]) == 2
    assert "training has not finished" in capsys.readouterr().err
    assert main([*command, "--max-minutes", "0", "--resume", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["stopped"] == "max-minutes"
    assert not {"valid", "test"} & set(result)
    assert main([*command, "--resume"]) == 0
    assert jaxlm.load(tmp_path / "cli").structure is not None
    assert main([*command, "--overwrite", "--max-minutes", "0"]) == 0
    assert "--resume" in capsys.readouterr().out
    assert jaxlm.load(tmp_path / "cli").structure is not None


def test_a_second_bootstrap_is_a_tree_built_from_the_model_over_the_first(corpus, tmp_path, capsys):
    recipe = dataclasses.replace(RECIPE, rate={"*": 0.5}, epochs=3)  # so that features change, and with them the tree

    def fitted(name, options):
        how = {"recipe": recipe, "config": CONFIG, "structure": options, "run": Run(show=True)}
        return train("hlbl", corpus, tmp_path / name, **how).model

    once = fitted("once", TreeOptions("adaptive"))
    assert re.findall(r"stage (.*), the", capsys.readouterr().err) == ["1 of 3", "2 of 3", "3 of 3"]
    twice = fitted("twice", TreeOptions("adaptive", bootstraps=2))
    assert re.findall(r"stage (.*), the", capsys.readouterr().err) == [f"{i} of 5" for i in range(1, 6)]
    again = fitted("again", TreeOptions("adaptive", bootstrap=str(tmp_path / "once")))
    assert twice.structure.children.tobytes() == again.structure.children.tobytes()
    assert twice.structure.children.tobytes() != once.structure.children.tobytes()
    np.testing.assert_array_equal(twice.params.Q, again.params.Q)


def test_a_tree_may_be_built_from_the_word_vectors_of_any_model(corpus, tmp_path):
    def fitted(name, more=(), **options):
        config, structure = {**CONFIG, **dict(more)}, TreeOptions("balanced", **options)
        return train("hlbl", corpus, tmp_path / name, recipe=RECIPE, config=config, structure=structure).model

    lbl = train("lbl", corpus, tmp_path / "lbl", recipe=RECIPE, config=CONFIG).model
    train("unigram", corpus, tmp_path / "unigram")
    of_lbl = {"bootstrap": str(tmp_path / "lbl"), "cluster": "vectors"}
    key, of_words = jax.random.fold_in(jax.random.key(1), STRUCTURE), {"features": np.asarray(lbl.params.R)}
    of_words["num_words"] = len(corpus.vocabulary)
    orders = []
    shared = {"shared_variance": True}  # of the model's Config
    alike = {"copies": 2, "replicate": True}
    for i, (how, more) in enumerate((({}, {}), ({"em_steps": 1}, {}), ({}, shared), (alike, {}))):
        orders.append(leaves(fitted(f"of-lbl-{i}", more, **of_lbl, **how).structure))
        assert orders[-1] == leaves(build("balanced", key, **of_words, **how, **more))
    assert orders[0] != orders[1]
    assert orders[0] != orders[2]
    with pytest.raises(UserError, match=r"only an hlbl predicts vectors for its tree .* add --cluster vectors"):
        fitted("other", bootstrap=str(tmp_path / "lbl"))
    with pytest.raises(UserError, match="unigram has no word vectors"):
        fitted("other", bootstrap=str(tmp_path / "unigram"), cluster="vectors")
    with pytest.raises(UserError, match="leave out --bootstraps"):
        fitted("other", bootstrap=str(tmp_path / "lbl"), bootstraps=2)


def test_full_context_matrices_are_trained_and_loaded(corpus, tmp_path):
    recipe = dataclasses.replace(RECIPE, optimizer="adam", rate={"*": 0.05}, epochs=3)
    config = {**CONFIG, "diagonal": False}
    trained = train("hlbl", corpus, tmp_path / "m", recipe=recipe, config=config, structure=TreeOptions("random"))
    losses = [line["train"] for line in trained.fitted.history]
    assert losses[-1] < losses[0]
    C = np.asarray(trained.model.params.C)
    assert C.shape == (2, 4, 4)
    assert np.abs(C * (1 - np.eye(4))).max() > 0.1
    np.testing.assert_array_equal(
        jaxlm.load(tmp_path / "m").event_log_probs(corpus.valid), trained.model.event_log_probs(corpus.valid)
    )


def leaves(tree):
    """List the words of a tree from left to right: the same for all orders of its nodes in memory."""
    found, stack = [], [0]
    while stack:
        node = stack.pop()
        if node < 0:
            found.append(~node)
        else:
            stack += tree.children[node].tolist()[::-1]
    return found


def test_json_files_hold_no_infinity(corpus, tmp_path):
    """A model that was stopped before its first validation has no score."""

    def refuse(constant):
        raise AssertionError(constant)

    train("lbl", corpus, tmp_path, recipe=RECIPE, config=CONFIG, run=Run(max_minutes=0.0))
    files = [*tmp_path.rglob("*.json"), *tmp_path.rglob("*.jsonl")]
    assert len(files) > 3
    for file in files:
        if "arrays" in file.parts:  # Orbax's own
            continue
        for line in [file.read_text()] if file.suffix == ".json" else file.read_text().splitlines():
            json.loads(line, parse_constant=refuse)


def test_a_recipe_by_name_brings_its_own_configuration(corpus, tmp_path):
    by_name = train("lbl", corpus, tmp_path / "a", config=CONFIG, run=Run(max_minutes=0.0))
    given = train("lbl", corpus, tmp_path / "b", recipe=RECIPE, config=CONFIG, run=Run(max_minutes=0.0))
    assert by_name.model.config.dropout > 0
    assert given.model.config.dropout == 0
    assert by_name.model.info["environment"]["matmul_precision"] == "highest"


@pytest.mark.filterwarnings("ignore:Kneser-Ney")  # the text is tiny
def test_a_counted_model_is_found_again(corpus, tmp_path):
    trained = train("kn", corpus, tmp_path, config={"order": 3})
    assert trained.fitted is None
    assert trained.model.config.interpolated
    loaded = jaxlm.load(tmp_path)
    assert loaded.config == trained.model.config
    np.testing.assert_array_equal(loaded.log_prob("The he"), trained.model.log_prob("The he"))


@pytest.mark.filterwarnings("ignore:Kneser-Ney")
def test_a_signal_while_a_counted_model_is_written_leaves_all_of_it(corpus, tmp_path, monkeypatch):
    save = ngrams.save

    def signalled(*arguments):
        signal.raise_signal(signal.SIGTERM)
        save(*arguments)

    monkeypatch.setattr(ngrams, "save", signalled)
    with signals.handled(stop), pytest.raises(signals.Signalled, match="stopped by SIGTERM"):
        train("class-ngram", corpus, tmp_path)
    assert jaxlm.load(tmp_path).record.name == "class-ngram"


def stop(number, frame):
    raise signals.Signalled(number)


def test_a_corpus_is_hashed_once(place, monkeypatch):
    made, real = [], hashlib.sha256

    def sha256(*args):
        made.append(args)
        return real(*args)

    monkeypatch.setattr(corpora.hashlib, "sha256", sha256)
    read = user_text.from_files([str(place / "train.txt")], min_count=2).corpus
    described = [read.describe() for _ in range(3)]
    assert len(made) == 1
    assert described[0]["sha256"] == described[0]["source sha256"] == read.sha256
    other = read._replace(train=read.train[::-1].copy())
    assert other.describe()["sha256"] != read.sha256
    assert read.describe()["sha256"] == read.sha256


def test_word_counts_are_of_the_training_text(corpus):
    np.testing.assert_array_equal(corpus.word_counts(), np.bincount(corpus.train))


@pytest.mark.parametrize(("name", "known"), [("lbl", "num_features"), ("kn", "order")])
def test_an_unknown_field_of_the_configuration_is_refused_with_the_known_ones(name, known, corpus, tmp_path):
    with pytest.raises(jaxlm.UserError, match=f"no field 'depth' - choose from .*{known}"):
        train(name, corpus, tmp_path, config={"depth": 3})


@pytest.mark.parametrize(("recipe", "left"), [(RECIPE, 1), (dataclasses.replace(RECIPE, anneal=True), 0)])
def test_a_checkpoint_is_left_where_more_epochs_can_follow(recipe, left, corpus, tmp_path):
    recipe = dataclasses.replace(recipe, epochs=2)
    train("lbl", corpus, tmp_path / "m", recipe=recipe, config=CONFIG)
    assert len(list((tmp_path / "m").glob("checkpoint-*"))) == left


@pytest.mark.parametrize(
    ("name", "config"),
    [("skipgram", {"num_features": 4}), ("ivlbl", {"num_features": 4}), ("lbl", CONFIG | {"objective": "nce"})],
)
def test_with_drawn_noise_more_epochs_equal_as_many_at_once(name, config, corpus, tmp_path):
    def trained(epochs, out, resume=False):
        recipe = dataclasses.replace(RECIPE, epochs=epochs, patience=9)
        return train(name, corpus, tmp_path / out, recipe=recipe, config=config, run=Run(resume=resume)).model.params

    trained(1, "one")
    found, expected = trained(3, "one", resume=True), trained(3, "other")
    for a, b in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        np.testing.assert_array_equal(a, b)
