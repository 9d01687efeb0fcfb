"""Rescoring: word errors by brute force and on known lists; weights that have not seen their list."""

import functools
import itertools
import math

import numpy as np
import pytest

from jaxfit.errors import UserError
from jaxlm.tasks import rescoring
from jaxlm.tasks.rescoring import Features, Outcome

TABLE = """utterance\trank\tacoustic\tlm\tnwords\tpron\thypothesis
u1\t2\t-5.5\t-3\t2\t0\tyes [laugh] sir
u1\t1\t-4\t-2\t1\t0\t
"""


def write(tmp_path, text):
    (tmp_path / "file.txt").write_text(text)
    return tmp_path / "file.txt"


@functools.cache
def distance(hypothesis, reference):
    """Compute Levenshtein's distance by its definition."""
    if not hypothesis or not reference:
        return len(hypothesis) + len(reference)
    return min(
        distance(hypothesis[1:], reference) + 1,
        distance(hypothesis, reference[1:]) + 1,
        distance(hypothesis[1:], reference[1:]) + (hypothesis[0] != reference[0]),
    )


def random_lists(seed, lists=12, size=7):
    """Draw features of random lists, and errors that the features tell something of."""
    rng = np.random.default_rng(seed)
    errors = [rng.integers(0, 6, size + i % 3) for i in range(lists)]
    tables = [rng.normal(size=(len(wrong), 4)) - 0.3 * wrong[:, None] * [1, 0.5, 0, 0.2] for wrong in errors]
    return tables, errors


def test_word_errors_are_levenshteins_distance():
    words = ["a", "b", "c"]
    hypotheses = [h for n in range(5) for h in itertools.product(words, repeat=n)]
    for reference in [(), ("a",), ("a", "a", "b"), ("b", "d", "b"), ("c", "b", "a", "b", "c", "a")]:
        expected = [distance(hypothesis, reference) for hypothesis in hypotheses]
        assert rescoring.word_errors(hypotheses, reference).tolist() == expected


def test_word_errors_of_empty_hypotheses_are_the_words_of_the_reference():
    assert rescoring.word_errors([[], []], ["a", "b"]).tolist() == [2, 2]
    assert rescoring.word_errors([[]], []).tolist() == [0]


def test_the_best_weighted_sum_is_chosen():
    tables, _ = random_lists(0)
    weights = np.random.default_rng(1).normal(size=(20, 4))
    for table in tables:
        expected = [[sum(w * row) for row in table] for w in weights]
        assert rescoring.choose(table, weights).tolist() == [sums.index(max(sums)) for sums in expected]


def test_blocks_of_weights_choose_alike(monkeypatch):
    (table, *_), _ = random_lists(2)
    weights = rescoring.grid(Features(1, 2, 0, 1))
    whole = rescoring.choose(table, weights)
    monkeypatch.setattr(rescoring, "BLOCK", 50)
    np.testing.assert_array_equal(rescoring.choose(table, weights), whole)


def test_weights_that_are_tried_include_those_given_and_single_features():
    tried = {tuple(row) for row in rescoring.grid(Features(1, 8, 0, 4)).tolist()}
    assert len(tried) == 25 * 17 * 25
    assert {(1, 8, 0, 4), (1, 8, 0, 0), (1, 0, 0, 4), (1, 0, 0, 0), (1, 24, -8, 12)} <= tried
    assert {row[3] for row in rescoring.grid(Features(1, 8, 0, 0)).tolist()} == {0}


def test_fitted_weights_have_the_fewest_errors_and_lie_in_their_midst():
    tried = np.array([[1, x, y, 0] for x in range(5) for y in range(5)], float)
    errors = np.where((tried[:, 1] >= 2) & (tried[:, 2] <= 2), 3, 7)
    assert rescoring.fit(errors, tried).tolist() == [1, 3, 1, 0]


def test_weights_in_the_midst_are_found_by_shares_of_what_is_tried():
    """From the mean, 0.5 and 40, the first weights are 0 and 0.4 of the ranges away, the second 0.5 and 0."""
    tried = np.array([[1, 0.5, 0, 0], [1, 0, 40, 0], [1, 1, 80, 0], [1, 0, 100, 0]])
    assert rescoring.fit(np.array([2, 2, 2, 5]), tried).tolist() == [1, 0.5, 0, 0]


def test_each_list_is_rescored_by_weights_fitted_to_all_others():
    tables, errors = random_lists(3)
    tried = rescoring.grid(Features(1, 2, 0, 1))
    chosen, fitted = rescoring.leave_one_out(tables, errors, tried)
    for u, table in enumerate(tables):
        others = [i for i in range(len(tables)) if i != u]
        sums = [sum(errors[i][np.argmax(tables[i] @ w)] for i in others) for w in tried]
        assert chosen[u] == np.argmax(table @ rescoring.fit(np.array(sums), tried))
    total = sum(wrong[rescoring.choose(table, tried)] for table, wrong in zip(tables, errors, strict=True))
    assert total[np.flatnonzero((tried == fitted).all(axis=1))[0]] == total.min() < total.max()


def test_no_reference_decides_how_its_own_list_is_rescored():
    tables, errors = random_lists(4)
    tried = rescoring.grid(Features(1, 2, 0, 0))
    chosen, _ = rescoring.leave_one_out(tables, errors, tried)
    changed = 0
    for u in range(len(tables)):
        other = [wrong if i != u else 40 * wrong[::-1] for i, wrong in enumerate(errors)]
        again, _ = rescoring.leave_one_out(tables, other, tried)
        assert again[u] == chosen[u]
        changed += (again != chosen).any()
    assert changed, "references decide nothing"


def test_word_error_rate_and_its_interval_are_over_utterances():
    rng = np.random.default_rng(5)
    words = rng.integers(1, 30, 300)
    errors = rng.binomial(words, 0.3)
    outcome = Outcome(errors, words)
    assert outcome.rate() == errors.sum() / words.sum()
    deviation = np.sqrt(((errors - outcome.rate() * words) ** 2).sum()) / words.sum()  # of a ratio, by linearisation
    assert outcome.interval() == pytest.approx(
        (outcome.rate() - 1.96 * deviation, outcome.rate() + 1.96 * deviation), abs=0.15 * deviation
    )
    assert outcome.difference(outcome) == (0, 0)
    low, high = outcome.difference(Outcome(errors + 1, words))
    assert low <= -len(words) / words.sum() <= high < 0
    assert math.isnan(Outcome(np.array([1]), np.array([0])).rate())


def test_lists_are_read_by_the_names_of_their_columns(tmp_path):
    lists = rescoring.read(write(tmp_path, TABLE))
    assert rescoring.first(lists["u1"]) == 1
    assert [h[:5] for h in lists["u1"]] == [(2, -5.5, -3, 2, "yes [laugh] sir"), (1, -4, -2, 1, "")]
    table = rescoring.features(lists["u1"], [-7.0, -8.0])
    assert table.tolist() == [[-5.5, -7, 2, -3], [-4, -8, 1, -2]]
    assert rescoring.without(["yes", "[laugh]", "sir"], {"[laugh]"}) == ["yes", "sir"]


def test_references_of_other_utterances_are_ignored(tmp_path):
    found = rescoring.read_references(write(tmp_path, "u1 yes sir \n\nu2\nu3 x\n"), ["u1", "u2"])
    assert (found["u1"], found["u2"]) == (["yes", "sir"], [])
    assert rescoring.read_noise(write(tmp_path, "[laugh]\n-pau- \n\n")) == {"[laugh]", "-pau-"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("u1\t1\t-5\t-3\t2\t0\tyes\n", r"there is no column 'utterance' \(.*file.txt, line 1\)"),
        (TABLE.partition("\n")[0], r"there are no hypotheses \(.*file.txt\)"),
        (TABLE + "u2\t1\t-5\n", r"the line has 3 fields, not 7 \(.*file.txt, line 4\)"),
        (TABLE.replace("-5.5", "loud"), r"acoustic is not a number: 'loud' \(.*file.txt, line 2\)"),
        (TABLE.replace("\t-2\t", "\tnan\t"), r"lm is not a number: 'nan' \(.*file.txt, line 3\)"),
    ],
)
def test_malformed_lists_are_an_error_of_their_line(tmp_path, text, expected):
    with pytest.raises(UserError, match=expected):
        rescoring.read(write(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("u1 a\nu2 b\nu1 c\n", r"two references of u1 \(.*file.txt, line 3\)"),
        ("u1 a\nu3 b\n", r"no reference of u2 \(.*file.txt\)"),
    ],
)
def test_malformed_references_are_an_error(tmp_path, text, expected):
    with pytest.raises(UserError, match=expected):
        rescoring.read_references(write(tmp_path, text), ["u1", "u2"])


def test_errors_of_switchboard_lists_are_the_known_figures(data_dir):
    folder = data_dir / "nbest-switchboard"
    if not folder.exists():
        pytest.skip(f"no n-best lists in {data_dir}")
    lists = rescoring.read(folder / "nbest.tsv.gz")
    noise = rescoring.read_noise(folder / "noise.vocab")
    references = rescoring.read_references(folder / "refs.txt", lists)
    assert (len(lists), sum(map(len, lists.values()))) == (65, 81_150)
    said = [rescoring.without(references[name], noise) for name in lists]
    assert sum(map(len, said)) == 557
    errors = [
        rescoring.word_errors([rescoring.without(h.text.split(), noise) for h in hypotheses], truth)
        for hypotheses, truth in zip(lists.values(), said, strict=True)
    ]
    tables = [rescoring.features(one, np.zeros(len(one))) for one in lists.values()]

    def total(*weights):
        return sum(wrong[rescoring.choose(table, [weights])[0]] for table, wrong in zip(tables, errors, strict=True))

    first = rescoring.outcome(errors, [len(words) for words in said], map(rescoring.first, lists.values()))
    assert (first.errors.sum(), first.rate()) == (216, 216 / 557)
    assert total(1, 0, 0, 0) == 288
    assert total(1, 0, 0, 8) == 210
    assert sum(wrong.min() for wrong in errors) == 128
    chosen, _ = rescoring.leave_one_out(tables, errors, rescoring.grid(Features(1, 0, 0, 8)))
    assert 190 <= sum(wrong[i] for wrong, i in zip(errors, chosen, strict=True)) <= 216
