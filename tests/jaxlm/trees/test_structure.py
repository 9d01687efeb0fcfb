"""A tree that is read from the folder of a model."""

import numpy as np
import pytest

from jaxfit.errors import UserError
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


def test_the_words_of_a_models_tree_keep_their_leaves_in_a_vocabulary_of_another_order(tmp_path):
    tree = build.huffman(np.array([9, 5, 2, 1]))
    tree_file.save(tree, tmp_path / FILE)
    Vocabulary(WORDS).save(tmp_path / "vocabulary.txt")
    other = Vocabulary(("he", "<eos>", "saw", "tea"))
    assert codes(read(str(tmp_path), other), other.words) == codes(tree, WORDS)
    np.testing.assert_array_equal(read(str(tmp_path), Vocabulary(WORDS)).children, tree.children)
    with pytest.raises(UserError, match=r"its tree is over other words .* - give its vocabulary.txt to --vocab"):
        read(str(tmp_path), Vocabulary(("<eos>", "tea", "she", "saw")))
