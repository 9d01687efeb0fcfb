"""The structure of the default prose."""

import numpy as np

from jaxlm.data import default_text

PAGE = """Boolean operations
******************

   or_test  ::= and_test | or_test "or" and_test

The operator "not" yields "True" if its
argument is *false*, i.e. zero. "False" otherwise, since 3.8!

   >>> print("this is an example of code that ends in a dot.")

* Bullets are prose [3] as well.

+-----------+------------------+
| Operation | is a table row.  |
+-----------+------------------+

   def f(x): return g(x) + (y, z) ** 2 if h[x] == {} else None;
"""


def test_sentences_are_extracted_from_a_page():
    assert default_text.sentences(PAGE) == [
        "the operator not yields true if its argument is false , i . e . zero .",
        "false otherwise , since N !",
        "bullets are prose as well .",
    ]


def test_prose_has_the_expected_sizes_and_split():
    """The words themselves differ between versions of Python."""
    split = default_text.prose_lines()
    corpus = default_text.prose()
    for lines, ids in zip(split, (corpus.train, corpus.valid, corpus.test), strict=True):
        assert len(ids) == sum(len(line.split()) + 1 for line in lines)
        assert np.count_nonzero(ids == corpus.vocabulary.eos) == len(lines)
    lines = [line for part in split for line in part]
    assert len(set(lines)) == len(lines)  # no line of the test is in the training text
    assert all(word in ("N", word.lower()) for line in lines for word in line.split())
    assert 8 < len(split[0]) / len(split[1]) < 8.5
    assert 8 < len(split[0]) / len(split[2]) < 8.5
    assert 30_000 < len(corpus.train) < 80_000
    assert 1_000 < len(corpus.vocabulary) < 4_000
    assert corpus.vocabulary.counts.sum() == len(corpus.train)
    assert np.mean(corpus.test == corpus.vocabulary.unk) < 0.1
    assert len(corpus.sha256) == 64
    again = default_text.prose()
    assert (again.sha256, again.test.tolist()) == (corpus.sha256, corpus.test.tolist())
