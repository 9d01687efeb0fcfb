"""What a model card shows: a word in its commands, and names of files."""

import sys

import pytest

from jaxlm import card


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["<eos>", "<unk>", ",", "N", "café", "rare", "~"], "N"),
        (["<eos>", "<unk>", ",", "it's", "~"], ","),
        (["<eos>", "<unk>"], "<eos>"),
    ],
)
def test_a_card_shows_a_frequent_word(words, shown):
    assert card._example(words) == shown


def test_names_that_are_not_utf_8_are_escaped(call, tmp_path):
    text = tmp_path / "text\udcff.txt"
    text.write_text("a b\nb a\n")
    trained, exported = tmp_path / "model\udcff", tmp_path / "hub\udcff"
    assert r"model\udcff" in call("train", "unigram", "--train", text, "--out", trained)
    sys.stdout.reconfigure(errors="strict")  # as a new process has it
    call("export", trained, "--format", "hub", "--out", exported)
    for folder in (trained, exported):
        assert r"| text\udcff.txt |" in (folder / "README.md").read_text("utf-8")
