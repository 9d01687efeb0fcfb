"""Texts given as files or as lines in memory."""

from pathlib import Path

import pytest

from jaxfit.errors import UserError
from jaxlm.data.given import as_files, as_words
from jaxlm.data.vocabulary import Vocabulary


def content(text):
    with as_files(text, "train") as files:
        return [Path(file).read_text() for file in files]


def test_lines_are_strings_or_lists_of_words():
    assert content(["a b", "c"]) == ["a b\nc\n"]
    assert content([["a", "b"], ("c",), []]) == ["a b\nc\n\n"]
    assert content(line for line in ["a b\n", "c\n"]) == ["a b\nc\n"]


def test_a_byte_order_mark_at_the_beginning_of_a_first_word_is_kept():
    with as_words(["\ufeffx", "x"], "vocab", "<eos>") as file:
        assert Vocabulary.load(file).words == ("\ufeffx", "x", "<eos>")


def test_files_are_names_or_paths(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).write_text(f"{name}\n")
    assert content(str(tmp_path / "one")) == ["one\n"]
    assert content(tmp_path / "one") == ["one\n"]
    assert content([tmp_path / "one", tmp_path / "two"]) == ["one\n", "two\n"]


def test_the_temporary_file_is_removed():
    with as_files(["a"], "train") as (file,):
        assert Path(file).exists()
    assert not Path(file).exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ([], "the text is empty"),
        (7, "int is neither a file nor lines"),
        ("a b\nc", "given as its lines"),
        (["a", "b\nc"], "train, line 2"),
        ([["a", "b c"]], "'b c' is not a word"),
        ([["a", ""]], "'' is not a word"),
        (["a", 5], "train, line 2"),
        ([__file__], "is the name of a file"),
        ([Path(__file__), 3], r"an element of the list of paths is int \(train, element 2\)"),
    ],
)
def test_what_is_no_text_is_one_line(text, said):
    with pytest.raises(UserError, match=said):
        content(text)
