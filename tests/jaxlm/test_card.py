"""The word that a model card shows commands with."""

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
