"""A tree that is read from the folder of a model, or from a file: its leaves are found by their words."""

import numpy as np
import pytest

from jaxfit.errors import UserError
from jaxfit.run_dir.arrays import to_safetensors
from jaxlm.data.vocabulary import Vocabulary
from jaxlm.trees import build
from jaxlm.trees import file as tree_file
from jaxlm.trees.paths import paths
from jaxlm.trees.structure import FILE, read

WORDS = ("<eos>", "tea", "he", "saw")


def codes(tree, words):
    """Return the decisions on the only path to each word."""
    found = paths(tree)
    ends = found.code_nodes
    return {word: (*zip(found.nodes[a:b], found.signs[a:b], strict=True),)
            for word, a, b in zip(words, ends[:-1], ends[1:], strict=True)}  # fmt: skip


OTHER = Vocabulary(("he", "<eos>", "saw", "tea"))


@pytest.fixture(params=["folder", "file of a folder", "file"])
def named(request, tmp_path):
    """Return a tree and a name by which it is read."""
    tree = build.huffman(np.array([9, 5, 2, 1]))
    if request.param == "file":
        tree_file.save(tree, tmp_path / "A.npz", WORDS)
        return tree, str(tmp_path / "A.npz")
    tree_file.save(tree, tmp_path / FILE)
    Vocabulary(WORDS).save(tmp_path / "vocabulary.txt")
    return tree, str(tmp_path / FILE if request.param == "file of a folder" else tmp_path)


def test_the_words_of_a_tree_keep_their_leaves_in_a_vocabulary_of_another_order(named):
    tree, name = named
    assert codes(read(name, OTHER), OTHER.words) == codes(tree, WORDS)
    np.testing.assert_array_equal(read(name, Vocabulary(WORDS)).children, tree.children)
    with pytest.raises(UserError, match=r"its tree is over other words .* - give the vocabulary.txt of its model to"):
        read(name, Vocabulary(("<eos>", "tea", "she", "saw")))
    with pytest.raises(UserError, match=r"over other words .* - train both with --closed-vocabulary, or neither"):
        read(name, Vocabulary((*WORDS, "<unk>")))


def test_a_tree_is_read_from_a_folder_for_hubs(tmp_path):
    tree = build.huffman(np.array([9, 5, 2, 1]))
    arrays = {"version": 1, "num_words": tree.num_words, "children": tree.children}
    (tmp_path / FILE).with_suffix(".safetensors").write_bytes(to_safetensors(arrays))
    Vocabulary(WORDS).save(tmp_path / "vocabulary.txt")
    assert codes(read(str(tmp_path), OTHER), OTHER.words) == codes(tree, WORDS)


def test_a_file_without_words_is_read_with_a_warning(tmp_path):
    tree = build.huffman(np.array([9, 5, 2, 1]))
    tree_file.save(tree, tmp_path / "A.npz")
    with pytest.warns(UserWarning, match=r"the tree file has no words, and its ids are taken for those of") as caught:
        np.testing.assert_array_equal(read(str(tmp_path / "A.npz"), OTHER).children, tree.children)
    assert caught[0].filename == __file__
