"""The store of language models: what distinguishes one from another, their times, their trees."""

import dataclasses
from pathlib import Path

from jax import random

from benchmarks.core.store import timing
from benchmarks.language import scales
from benchmarks.language.store import LanguageStore, Spec, subtrees
from benchmarks.language.tables import kn
from jaxlm.trees import build as trees
from jaxlm.trees import paths as tree_paths


def test_an_epoch_that_was_resumed_counts_by_its_speed() -> None:
    lines = [
        {"steps": 100, "train_seconds": 10.0, "examples_per_second": 100.0, "compile_seconds": 1.0},
        {"steps": 100, "train_seconds": 11.0, "examples_per_second": 90.9, "compile_seconds": 1.0},
        {"steps": 7, "train_seconds": 0.5, "examples_per_second": 140.0, "compile_seconds": 2.0},
        {"steps": 0, "train_seconds": 0.0, "examples_per_second": 0.0, "compile_seconds": 2.0},
    ]
    found = timing(lines, 1000)
    assert found == {"seconds_per_epoch": 10.0, "examples_per_second": 100.0, "compile_seconds": 2.0}
    assert timing([], 1000) == {}, "an n-gram model has no epochs"


def test_subtrees_are_those_that_were_joined() -> None:
    keys = random.split(random.key(0), 4)
    parts = [trees.random_tree(key, 11) for key in keys]
    again = subtrees(trees.join(parts))
    assert len(again) == 4
    for part, found in zip(parts, again, strict=True):
        assert found.num_words == 11
        assert tree_paths.paths(found).signs.tolist() == tree_paths.paths(part).signs.tolist()


def test_identity_is_all_that_determines_a_model_and_nothing_else(tmp_path: Path) -> None:
    scale = scales.SCALES["tiny"]
    corpus = scales.text("planted", scale)
    ours = LanguageStore(corpus, scale, "tuned", tmp_path)
    spec = Spec("hlbl", tree=("adaptive", 0.4, 4))
    folder = ours.directory(spec)
    other = [
        LanguageStore(corpus, scale, "thesis", tmp_path).directory(spec),
        LanguageStore(corpus._replace(sha256="0" * 64), scale, "tuned", tmp_path).directory(spec),
        ours.directory(Spec("hlbl", seed=2, tree=("adaptive", 0.4, 4))),
        ours.directory(Spec("hlbl", tree=("adaptive", 0.25, 4))),
        ours.directory(Spec("hlbl", tree=("adaptive", 0.4, 4), left_out=(0, 8))),
        ours.directory(Spec("hlbl", tree=("adaptive", 0.4, 4), tree_of=spec)),
        ours.directory(Spec("hlbl", tree=("adaptive", 0.4, 4), config=(("context_size", 2),))),
    ]
    assert len({folder, *other}) == 1 + len(other)
    assert LanguageStore(corpus, scale, "tuned", tmp_path, show=True).directory(spec) == folder
    # of the whole data, under another scale
    whole = dataclasses.replace(scale, events=None)
    assert LanguageStore(corpus, whole, "tuned", tmp_path).directory(spec) != folder
    # an n-gram model is the same under any recipe
    kn3 = kn(3)
    assert LanguageStore(corpus, scale, "thesis", tmp_path).directory(kn3) == ours.directory(kn3)
