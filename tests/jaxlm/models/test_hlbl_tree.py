"""The tree of an hlbl: its options, the model that it is built from, word features, stand-ins."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxfit.errors import UserError
from jaxlm.data.contexts import text_of
from jaxlm.models.hlbl import model as hlbl
from jaxlm.models.hlbl import tree as hlbl_tree
from jaxlm.models.hlbl.tree import TreeOptions, predicted_sums
from jaxlm.trees import build as trees
from jaxlm.trees import file as tree_file
from jaxlm.trees.paths import statistics

V, C, D = 9, 3, 5


def make_params(seed=0, diagonal=True):
    config = hlbl.Config(V, V - 1, num_features=D, context_size=C, diagonal=diagonal)
    params = hlbl.init(jax.random.key(seed), config, np.ones(V), trees.random_tree(jax.random.key(0), V))
    rng = np.random.default_rng(seed)
    return config, jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape), jnp.float32), params)


@pytest.mark.parametrize("diagonal", [True, False])
def test_sums_of_predicted_vectors_equal_a_loop(diagonal):
    config, params = make_params(diagonal=diagonal)
    ids = np.random.default_rng(3).integers(0, V - 1, 2500).astype(np.int32)
    text = text_of(ids, 0)
    sums = predicted_sums(params.R, params.C, text, config)
    padded = np.pad(ids, (C, 0))
    expected = np.zeros((V, D))
    R, C_ = np.asarray(params.R), np.asarray(params.C)
    for i, word in enumerate(ids):
        expected[word] += sum(c * r if diagonal else c @ r for c, r in zip(C_, R[padded[i : i + C]], strict=True))
    np.testing.assert_allclose(sums, expected, rtol=1e-4, atol=1e-4)


def test_sums_of_predicted_vectors_compile_once_for_texts_of_about_the_same_length():
    config, params = make_params()
    compiled = predicted_sums._cache_size()
    for seed, events in enumerate((2450, 2470, 2499)):
        ids = np.random.default_rng(seed).integers(0, V, events).astype(np.int32)
        predicted_sums(params.R, params.C, text_of(ids, 0), config)
    assert predicted_sums._cache_size() <= compiled + 1


@pytest.mark.parametrize(
    ("options", "first"),
    [
        (TreeOptions("adaptive", epsilon=0.4), TreeOptions("random")),
        (TreeOptions("adaptive", bootstrap="elsewhere"), None),
        (TreeOptions("adaptive", copies=2, bootstraps=3), TreeOptions("adaptive", copies=2, bootstraps=2)),
        (TreeOptions("adaptive", cluster="vectors"), TreeOptions("random")),
        (TreeOptions("random", copies=2), None),
        (TreeOptions("huffman"), None),
        (TreeOptions("tree.npz"), None),
    ],
)
def test_only_a_learned_tree_without_a_model_needs_one_trained_first(options, first):
    assert hlbl_tree.first_stage(options) == first


def test_options_of_a_built_tree_are_refused_for_a_tree_file(tmp_path):
    tree_file.save(trees.build("random", jax.random.key(0), num_words=5), tmp_path / "tree.npz")
    hlbl_tree.check(TreeOptions(str(tmp_path / "tree.npz")))
    for more in ({"epsilon": 0.1}, {"copies": 2}, {"replicate": True}, {"bootstrap": "x"}, {"em_steps": 20}):
        with pytest.raises(UserError, match=f"--{next(iter(more)).replace('_', '-')} is for building a tree"):
            hlbl_tree.check(TreeOptions(str(tmp_path / "tree.npz"), **more))
    for more in ({"bootstrap": "x"}, {"bootstraps": 2}, {"cluster": "vectors"}, {"em_steps": 20}):
        with pytest.raises(UserError, match=f"--{next(iter(more)).replace('_', '-')} is for trees that are learned"):
            hlbl_tree.check(TreeOptions("random", **more))
    for rule in ("random", "huffman", "balanced"):
        with pytest.raises(UserError, match=rf"--epsilon is for trees that are adaptive .* \(--tree {rule}\)"):
            hlbl_tree.check(TreeOptions(rule, epsilon=0.3))
    with pytest.raises(UserError, match=r"--replicate has no effect, as copies of a Huffman tree are alike"):
        hlbl_tree.check(TreeOptions("huffman", copies=2, replicate=True))
    for rule in ("adaptive", "noisy-adaptive"):
        hlbl_tree.check(TreeOptions(rule, epsilon=0.3))
        with pytest.raises(UserError, match=r"invalid value 0\.5 \(--epsilon\) - .* below 0\.5"):
            hlbl_tree.check(TreeOptions(rule, epsilon=0.5))
    with pytest.raises(UserError, match=r"no rule for trees or file 'adaptiv'.* did you mean adaptive"):
        hlbl_tree.check(TreeOptions("adaptiv"))


def test_stand_in_has_the_size_of_the_built_tree():
    """Equal numbers of nodes; for overlapping clusters as many copies as make the code lengths of Table 4.3."""
    counts = np.random.default_rng(0).integers(1, 100, 61)
    features = np.asarray(jax.random.normal(jax.random.key(1), (61, 4)))
    for copies in (1, 4):
        stand_in = hlbl_tree.stand_in(TreeOptions("adaptive", copies=copies), 61, counts)
        learned = trees.build(
            "adaptive", jax.random.key(0), num_words=61, features=features, counts=counts, copies=copies
        )
        assert len(stand_in.children) == len(learned.children) == 61 * copies - 1
    stand_in = hlbl_tree.stand_in(TreeOptions("adaptive", epsilon=0.4, copies=4), 61, counts)
    assert statistics(stand_in, counts).mean_codes == 10
