"""Counts of a text's words."""

import numpy as np
import pytest

from jaxlm.data.corpus import counts_beside_others

EOS = 0


@pytest.mark.parametrize("end", [[], [EOS]])
def test_words_alone_on_their_lines_are_beside_none(end):
    ids = np.array([1, EOS, 2, 3, EOS, EOS, 1, 2, 1, EOS, 4, EOS, 5, *end], np.int32)
    assert counts_beside_others(ids, 7, EOS).tolist() == [0, 2, 2, 1, 0, 0, 0]
