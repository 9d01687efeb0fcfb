"""Tree files: saved and loaded trees are equal, and every kind of invalid file is refused."""

import numpy as np
import pytest

from jaxfit.errors import UserError
from jaxlm.trees import file as tree_file
from jaxlm.trees.paths import Tree
from word_trees import NUM_WORDS, make_tree


def test_loaded_tree_equals_saved_tree(tree, tmp_path):
    tree_file.save(tree, tmp_path / "tree.npz")
    loaded = tree_file.load(tmp_path / "tree.npz", NUM_WORDS)
    assert loaded.num_words == tree.num_words
    assert loaded.children.dtype == np.int32
    assert np.array_equal(loaded.children, tree.children)
    assert [path.name for path in tmp_path.iterdir()] == ["tree.npz"]


def test_words_of_a_file_are_those_that_it_was_saved_with(tmp_path):
    words = tuple(f"été{i}" for i in range(NUM_WORDS))
    tree_file.save(make_tree(), tmp_path / "t.npz", words)
    assert tree_file.words_of(tmp_path / "t.npz") == words
    assert np.array_equal(tree_file.load(tmp_path / "t.npz").children, make_tree().children)
    tree_file.save(make_tree(), tmp_path / "t.npz")
    assert tree_file.words_of(tmp_path / "t.npz") is None
    np.savez(tmp_path / "t.npz", words=np.frombuffer(b"\xff", np.uint8))
    with pytest.raises(UserError, match="not a tree file, or a damaged one"):
        tree_file.words_of(tmp_path / "t.npz")


INVALID = {
    "a cycle": ([[1, -1], [0, -2]], "cycle"),
    "its own child": ([[0, -1]], "cycle"),
    "two parents": ([[1, 2], [2, -1], [-2, -3]], "parents"),
    "no parent": ([[-1, -2], [-3, -1]], "parents"),
    "no such node": ([[5, -1]], "no such node"),
    "no such word": ([[1, -1], [-2, -9]], "a leaf has word 8"),
    "fewer leaves than words": ([[-1, -2]], "3 words, but there are only 2 leaves"),
    "a word without leaf": ([[1, -1], [-1, -2]], "word 2 has no leaf"),
    "no nodes": (np.zeros((0, 2)), "0 nodes"),
    "three children": ([[-1, -2, -3]], "int32"),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_trees_are_refused(name, tmp_path):
    children, message = INVALID[name]
    np.savez(tmp_path / "t.npz", version=1, num_words=3, children=np.array(children, np.int32))
    with pytest.raises(UserError, match=message) as error:
        tree_file.load(tmp_path / "t.npz")
    assert str(tmp_path / "t.npz") in str(error.value)


def test_damaged_files_are_refused(tmp_path):
    whole = tmp_path / "whole.npz"
    tree_file.save(make_tree(), whole)
    content = whole.read_bytes()
    broken = tmp_path / "broken.npz"
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 255
    broken.write_bytes(b"not a tree\n")
    with pytest.raises(UserError, match=r"^not a tree file, or a damaged one \([^()]*broken.npz\) - create one"):
        tree_file.load(broken)
    for damaged in (b"", b"not a tree", content[: len(content) // 2], content[:-30], bytes(flipped)):
        broken.write_bytes(damaged)
        with pytest.raises(UserError, match=r"damaged|missing"):
            tree_file.load(broken)
    np.save(tmp_path / "array.npy", np.zeros(3))
    np.savez(tmp_path / "pickle.npz", version=1, num_words=3, children=np.array([None, {}], object))
    np.savez(tmp_path / "other.npz", weights=np.zeros(3))
    np.savez(tmp_path / "shapes.npz", version=np.ones(2, int), num_words=2.5, children=np.zeros((1, 2), np.int32))
    for name in ("array.npy", "pickle.npz", "other.npz", "shapes.npz"):
        with pytest.raises(UserError, match="not a tree file"):
            tree_file.load(tmp_path / name)
    with pytest.raises(UserError, match="no such file"):
        tree_file.load(tmp_path / "absent.npz")
    with pytest.raises(UserError, match="not a tree file"):
        tree_file.load(tmp_path)


def test_other_versions_and_other_vocabularies_are_refused(tmp_path):
    np.savez(tmp_path / "t.npz", version=2, num_words=2, children=np.array([[-1, -2]], np.int32))
    with pytest.raises(UserError, match="version 2"):
        tree_file.load(tmp_path / "t.npz")
    tree_file.save(make_tree(), tmp_path / "t.npz")
    with pytest.raises(UserError, match="61 words for a vocabulary of 60"):
        tree_file.load(tmp_path / "t.npz", 60)


def test_failed_save_leaves_the_previous_file_unchanged(tmp_path):
    tree_file.save(make_tree(), tmp_path / "t.npz")
    before = (tmp_path / "t.npz").read_bytes()
    with pytest.raises(UserError):
        tree_file.save(Tree(np.array([[-1, -1]], np.int32), 2), tmp_path / "t.npz")
    with pytest.raises(UserError, match="a directory was given instead of a file"):
        tree_file.save(make_tree(), tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="it is a file, not a folder"):
        tree_file.save(make_tree(), tmp_path / "file" / "t.npz")
    assert (tmp_path / "t.npz").read_bytes() == before


def test_no_array_of_a_damaged_number_of_words_is_made(tmp_path):
    for number in (10**12, 2**62):  # terabytes, and more than NumPy can address
        np.savez(tmp_path / "t.npz", version=1, num_words=number, children=np.array([[-1, -2]], np.int32))
        with pytest.raises(UserError, match="words, but there are only 2 leaves"):
            tree_file.load(tmp_path / "t.npz")


def test_an_archive_that_claims_to_be_encrypted_is_refused(tmp_path):
    tree_file.save(make_tree(), tmp_path / "t.npz")
    content = bytearray((tmp_path / "t.npz").read_bytes())
    for header, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(header) + flags] |= 0b1000001
    (tmp_path / "t.npz").write_bytes(content)
    with pytest.raises(UserError, match="not a tree file, or a damaged one"):
        tree_file.load(tmp_path / "t.npz")
