"""`jaxcf.train`, and what a trained model does in Python."""

import json
import signal

import jax
import numpy as np
import pytest

import jaxcf
from jaxcf import metrics
from jaxcf.cli.recommend import parse_rated
from jaxcf.data.given import as_files
from jaxfit.errors import Diverged, FolderTaken, Interrupted, NotInTraining, Unsupported, UserError
from jaxfit.run_dir import checkpoint

pandas = pytest.importorskip("pandas", reason="pandas is not installed: pip install -e '.[test]'")
ROWS = [
    (f"u{user}", f"i{item}", float(1 + (user * item) % 5)) for user in range(8) for item in range(6) if user != item
]


@pytest.fixture(scope="module")
def frame():
    return pandas.DataFrame(ROWS, columns=["userId", "movieId", "rating"])


@pytest.fixture(scope="module")
def model(frame):
    return jaxcf.train("bias", frame, progress=False)


def test_files_tables_columns_and_rows_give_the_same_model(frame, model, tmp_path):
    frame.to_csv(tmp_path / "ratings.csv", index=False)
    columns = {"user": [r[0] for r in ROWS], "item": [r[1] for r in ROWS], "stars": [r[2] for r in ROWS]}
    users, items = [row[0] for row in ROWS], [row[1] for row in ROWS]
    file = tmp_path / "ratings.csv"
    records = frame[["rating", "movieId", "userId"]].to_dict("records")
    tables = frame.set_index("userId").reset_index(), columns, ROWS, records, iter(records)
    for ratings in (str(file), [file], *tables):
        other = jaxcf.train("bias", ratings, progress=False)
        np.testing.assert_array_equal(other.predict(users, items), model.predict(users, items))


def test_seeds_of_numpy_are_those_of_python(frame, model):
    for seed in np.arange(1, 3):
        other = jaxcf.train("bias", frame, seed=seed, progress=False)
        assert other.info["seed"] == seed
        np.testing.assert_array_equal(other.params.b, model.params.b)


@pytest.mark.parametrize("name", ["pmf", "wmf", "rbm"])
def test_settings_of_jax_change_nothing(frame, other_settings, name):
    options = {"num_hidden" if name == "rbm" else "num_features": 2, "epochs": 2, "progress": False}
    plain = jaxcf.train(name, frame, **options)
    expected = plain.recommend("u1"), plain.recommend(ratings={"i1": 4.0})
    with other_settings():
        other = jaxcf.train(name, frame, **options)
        found = other.recommend("u1"), other.recommend(ratings={"i1": 4.0})
    for one, two in zip(jax.tree.leaves(plain.params), jax.tree.leaves(other.params), strict=True):
        np.testing.assert_array_equal(one, two)
        assert one.dtype == two.dtype
    assert found == expected


def test_ids_of_numbers_stay_numbers():
    with as_files([(7, 12, 4), (8, 12, 3)], "ratings") as (file,):
        assert pandas.read_parquet(file).to_numpy().tolist() == [[7, 12, 4], [8, 12, 3]]


def test_predict_says_what_is_unknown(model):
    with pytest.raises(NotInTraining, match=r"no user 'nobody' was in training - "):
        model.predict(["nobody", "u1", "nobody"], ["i2", "i2", "i3"])
    with pytest.raises(NotInTraining, match=r"no item 'x' was in training, nor was 1 other"):
        model.predict(["u1", "u1"], ["x", "y"])
    assert np.isfinite(model.predict(["nobody"], ["x"], known_only=False)).all()


def test_evaluation_is_of_the_predictions(frame, model):
    predicted = model.predict(frame["userId"], frame["movieId"], clip=False)
    expected = metrics.evaluate(predicted, frame["rating"], model.catalogue.scale)
    assert model.evaluate(frame).rmse == pytest.approx(expected.rmse, abs=1e-6)
    assert repr(model) == f"<bias: 8 users, 6 items, {len(ROWS)} ratings>"


def test_threads_that_come_too_late_are_a_warning(frame):
    assert jax.devices()
    with pytest.warns(UserWarning, match="JAX has begun: threads has no effect"):
        jaxcf.train("pmf", frame, num_features=2, epochs=1, batch_size=8, progress=False, threads=63)


def test_a_training_that_diverged_can_begin_anew(frame, tmp_path):
    def train(**more):
        return jaxcf.train(
            "pmf", frame, num_features=2, epochs=2, batch_size=8, progress=False, out=tmp_path / "m", **more
        )

    with pytest.raises(Diverged, match="begin anew with a lower --rate"):
        train(rate=1e30)
    model = train()
    np.testing.assert_array_equal(jaxcf.load(tmp_path / "m").vectors(), model.vectors())
    assert str(tmp_path / "m") in (tmp_path / "m" / "README.md").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    with pytest.raises(FolderTaken, match="add --resume"):
        train(rate=1e30)


def test_a_signal_while_parameters_are_written_loses_nothing(frame, tmp_path, monkeypatch):
    write = checkpoint.write

    def signalled(*args, **options):
        signal.raise_signal(signal.SIGINT)
        write(*args, **options)

    monkeypatch.setattr(checkpoint, "write", signalled)
    options = {"num_features": 2, "epochs": 2, "out": tmp_path / "m", "progress": False}
    with pytest.raises(Interrupted):
        jaxcf.train("pmf", frame, **options)
    monkeypatch.undo()
    found = jaxcf.load(tmp_path / "m")
    assert found.info["epochs"] == 2
    received = []
    model = jaxcf.train("pmf", frame, resume=True, on_epoch=received.append, **options)
    np.testing.assert_array_equal(model.params.U, found.params.U)
    assert not received  # it had finished


@pytest.mark.parametrize(("name", "solver"), [("pmf", None), ("pmf", "als"), ("wmf", None)])
def test_on_epoch_receives_each_line_of_the_journal(name, solver, frame, tmp_path):
    received = []
    more = {"num_features": 2} if name == "pmf" else {}
    jaxcf.train(
        name, frame, solver=solver, epochs=2, out=tmp_path / "m", on_epoch=received.append, progress=False, **more
    )
    assert received == [json.loads(line) for line in (tmp_path / "m" / "journal.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in received] == [0, 1]
    assert set(received[-1]["shown"]) >= {"validation RMSE" if name == "pmf" else "validation NDCG@10"}


def test_closed_forms_have_no_epochs(frame):
    with pytest.raises(UserError, match="bias is not trained in epochs"):
        jaxcf.train("bias", frame, on_epoch=print, progress=False)
    with pytest.raises(UserError, match="3 is not a function"):
        jaxcf.train("pmf", frame, on_epoch=3, progress=False)


def test_a_model_by_sgd_is_resumed(frame, tmp_path):
    more = {"num_features": 2, "epochs": 2, "batch_size": 8, "progress": False, "out": tmp_path / "m"}
    first = jaxcf.train("pmf", frame, **more)
    again = jaxcf.train("pmf", frame, resume=True, **more)
    np.testing.assert_array_equal(first.predict(["u1"], ["i2"]), again.predict(["u1"], ["i2"]))


@pytest.mark.parametrize(
    ("ratings", "said"),
    [
        ([], "there are no ratings"),
        (5, "int holds no ratings"),
        ([("a", "b", 3.0), (1, "c", 4.0)], "not of one type"),
        ([("a", "b", 3.0), ("a",)], "rows have 1 or 3 columns"),
        ([("a", "b")], "without ratings"),
        ([{"user": "a", "item": "b"}], "without ratings"),
        ([{"user": "a", "item": "b"}, {"user": "a", "item": "c", "rating": 3}], "the rating is missing .ratings, row"),
        ([{"user": "a", "item": "b", "rating": 3}, ("a", "c", 3)], "a row is a dict, not a tuple of user, item and"),
        ([{"a", "b", 3.0}], r"a row is a set, .* - give rows of \(user, item, stars\)"),
        ([("a", "b", 3.0), "abc"], "a row is a str, not a tuple"),
        ({"user": ["a"], "item": ["b"], "wert": [3]}, r"ratings are \(ratings\) - the columns are user, item, wert:"),
        ([(10**19, 1, 3), (2, 1, 4)], "a whole number is of more than 64 bits .ratings. - give ids as text"),
        ({"user": [10**30, 2], "item": [1, 1], "stars": [3, 4]}, "a whole number is of more than 64 bits"),
        ([("a\ud800", 1, 3), ("b", 1, 4)], "an id is not valid text: .* - correct it: it has half of a surrogate pair"),
        ("no-such-file.csv", "there is no such file"),
        ({"a": [1], "b": [2]}, "cannot be identified"),
    ],
)
def test_what_holds_no_ratings_is_one_line(ratings, said):
    with pytest.raises(UserError, match=said):
        jaxcf.train("bias", ratings, progress=False)


@pytest.mark.parametrize("user", ["a\nb", "a\rb", "a\0", "a\0b"])
def test_ids_are_of_one_line(user):
    with pytest.raises(UserError, match=r"the user is an id with a line break or a zero byte \(ratings, row 2\)"):
        jaxcf.train("bias", [("a", "b", 3.0), (user, "b", 4.0)], progress=False)


def test_errors_name_ratings_in_memory_not_a_temporary_file(frame):
    with pytest.raises(UserError, match=r"\(ratings.*row 2") as error:
        jaxcf.train("bias", [("a", "b", 3.0), ("a", "c", float("nan"))], progress=False)
    assert "/" not in str(error.value)
    with pytest.raises(UserError, match=r"there are no validation ratings \(ratings\) - "):
        jaxcf.train("pmf", [("a", "b", 3.0)], progress=False)


def test_options_of_other_ways_of_fitting_are_errors(frame):
    with pytest.raises(UserError, match="there is no option 'epochs' - leave it out: bias is not trained by SGD"):
        jaxcf.train("bias", frame, epochs=3)
    with pytest.raises(UserError, match="'init' - the command's --help-all lists the options"):
        jaxcf.train("pmf", frame, init="pmf")
    with pytest.raises(UserError, match="applies to SGD only"):
        jaxcf.train("pmf", frame, solver="als", batch_size=4)
    with pytest.raises(UserError, match="no parameter is called 'Q'"):
        jaxcf.train("pmf", frame, rate={"Q": 0.1})
    with pytest.raises(Unsupported, match="rated=… needs"):
        jaxcf.train("pmf", frame, rated=[("u1", "i1")])


@pytest.mark.parametrize("number", [None, {}, [4], "4"])
def test_a_size_that_is_no_number_is_one_line(number, frame):
    with pytest.raises(UserError, match=r"invalid value .* \(num_features\) - give a whole number"):
        jaxcf.train("pmf", frame, num_features=number, progress=False)


def test_stars_are_not_added_up(frame):
    for model, more in (("bias", {}), ("popularity", {"positive": 4.0})):
        with pytest.raises(UserError, match="only counts can be added up"):
            jaxcf.train(model, frame, duplicates="sum", progress=False, **more)


def test_models_of_implicit_data_take_pairs_counts_or_ratings():
    pairs = [row[:2] for row in ROWS]
    popular = jaxcf.train("popularity", pairs, progress=False)
    counted = jaxcf.train("popularity", [*pairs, *pairs[:3]], progress=False)
    assert popular.recommend("u0") == counted.recommend("u0")
    liked = jaxcf.train("popularity", ROWS, positive=4.0, progress=False)
    assert repr(liked) == f"<popularity: 8 users, 6 items, {sum(row[2] >= 4 for row in ROWS)} positives>"
    left_out = [(f"u{item}", f"i{item}") for item in range(6)]
    assert len(popular.rank(left_out, top=3).users) == 6
    for ask in (lambda: popular.evaluate(ROWS), lambda: popular.predict(["u1"], ["i2"])):
        with pytest.raises(Unsupported, match="popularity has none"):
            ask()


def test_a_rate_may_be_one_number(frame):
    one = jaxcf.train("pmf", frame, rate=0.01, decay=0.1, num_features=2, epochs=1, batch_size=8, progress=False)
    by_name = jaxcf.train(
        "pmf",
        frame,
        rate={"*": 0.01},
        decay={"*": 0.1},
        num_features=np.int64(2),
        epochs=1,
        batch_size=8,
        progress=False,
    )
    np.testing.assert_array_equal(one.predict(["u1"], ["i2"]), by_name.predict(["u1"], ["i2"]))


def test_a_decay_of_the_model_itself_is_one_number():
    model = jaxcf.train("wmf", [row[:2] for row in ROWS], decay=7, num_features=2, epochs=1, progress=False)
    assert model.config.decay == 7


@pytest.mark.parametrize("solver", ["cg", "cholesky"])
def test_sweeps_that_are_not_finite_have_diverged(solver):
    more = {"num_features": 2, "epochs": 2, "progress": False}
    with pytest.raises(Diverged, match="sweep 1 is not finite"):
        jaxcf.train("wmf", [(*row[:2], 1e12) for row in ROWS], solver=solver, alpha=1e30, **more)
    with pytest.raises(UserError, match=r"needs an epsilon above 0 \(--epsilon 0\)"):
        jaxcf.train("wmf", [row[:2] for row in ROWS], confidence="log", epsilon=0.0, **more)


def test_counts_of_a_new_user_are_those_that_files_may_have():
    model = jaxcf.train("wmf", [row[:2] for row in ROWS], num_features=2, epochs=1, progress=False)
    for count, said in (
        (float("inf"), "inf of 'i1' is not finite"),
        (float("nan"), "nan of 'i1' is not finite"),
        (1e300, r"1e\+300 of 'i1' is not finite, or too large"),
        (10**400, "not a number"),
        (-1.0, "-1 is not a count"),
    ):
        with pytest.raises(UserError, match=said):
            model.recommend(ratings={"i1": count})


@pytest.mark.parametrize(
    ("text", "ratings", "others"),
    [
        ('"Abyss, The":5,Alien:4', {"Abyss, The": 5, "Alien": 4}, []),
        ('Alien:4, "Abyss, The" :5', {"Abyss, The": 5, "Alien": 4}, []),
        ('"Abyss, The","2:1"', {}, ["Abyss, The", "2:1"]),
        ('"a ""b"", c":1', {'a "b", c': 1}, []),
        ('12" single:3,7" single:2', {'12" single': 3, '7" single': 2}, []),
        ('"open:3,b:2', {'"open': 3, "b": 2}, []),
    ],
)
def test_items_with_commas_are_given_in_double_quotes(text, ratings, others):
    assert parse_rated(text) == (ratings, others)


def test_an_item_has_one_rating_and_counts_are_added_up(frame, model):
    with pytest.raises(UserError, match="item '50' has more than one rating"):
        parse_rated("50:5,50:3,50")
    assert parse_rated("50:5,7:1,50:3,50", counts=True) == ({"50": 8, "7": 1}, ["50"])
    numbered = jaxcf.train("bias", [(1, 2, 3), (1, 3, 4), (2, 2, 5)], progress=False)
    with pytest.raises(UserError, match="item '2' has more than one rating"):
        numbered.new_user({2: 3, "2": 5})
    for stars in ([1, 2], (4,), [], {"a": 1}, "x"):
        with pytest.raises(UserError, match="the stars of an item are not a number"):
            numbered.new_user({2: stars})
    assert numbered.predict(np.array([1.0, 2.0], object), [2, 2]).tolist() == numbered.predict([1, 2], [2, 2]).tolist()
    counted = jaxcf.train("popularity", [row[:2] for row in ROWS], progress=False)
    known = counted.new_user({"i1": 5}, ["i0", "i1", "i1"]).ratings
    assert counted.catalogue.items[known.item].tolist() == ["i0", "i1"]
    assert known.stars.tolist() == [1, 7]


def test_notes_call_ratings_in_memory_by_their_name(frame, capsys):
    jaxcf.train("bias", frame, valid=frame)
    said = [line for line in capsys.readouterr().err.splitlines() if "columns" in line]
    assert [line.split(": ")[1] for line in said] == ["ratings", "valid"]


def test_places_and_stars_of_a_ranking_are_checked(frame, model):
    assert len(model.rank(frame, top=100, relevant=5).users) == 0, "all are known"
    for wrong in ({"top": 0}, {"top": "10"}, {"top": 2.5}, {"relevant": "4"}, {"relevant": np.nan}, {"relevant": 6}):
        (name,) = wrong
        with pytest.raises(UserError, match=rf"invalid value .* \({name}\) - give a"):
            model.rank(frame, **wrong)


def test_what_a_text_lists_may_be_a_list(frame, model):
    renamed = frame.rename(columns={"userId": "x", "movieId": "y", "rating": "z"})
    other = jaxcf.train("bias", renamed, columns=["x", "y", "z"], scale=(1, 5, 1), progress=False)
    assert other.predict(["u1"], ["i2"]) == model.predict(["u1"], ["i2"])


def test_evaluation_reads_as_it_is_told(frame, model):
    renamed = frame.rename(columns={"userId": "x", "movieId": "y", "rating": "z"})
    assert model.evaluate(renamed, columns="x,y,z").rmse == model.evaluate(frame).rmse
    assert model.evaluate(renamed, columns=["x", "y", "z"]).rmse == model.evaluate(frame).rmse
    for wrong, said in (
        ({"column": "x,y,z"}, "no option 'column'"),
        ({"duplicates": "avg"}, r"invalid value 'avg' \(duplicates\)"),
        ({"format": "cvs"}, r"invalid value 'cvs' \(format\)"),
        ({"skip_bad": "x"}, r"invalid value 'x' \(skip_bad\) - give a whole number"),
        ({"skip_bad": -1}, r"invalid value -1 \(--skip-bad\)"),
    ):
        for ask in (model.evaluate, model.rank):
            with pytest.raises(UserError, match=said):
                ask(frame, **wrong)
    with pytest.raises(UserError, match="holds no ratings"):
        model.evaluate(frame["rating"])
