"""Rating models by the conventions of scikit-learn."""

import datetime
import decimal
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_validate

import jaxcf
from jaxcf.sklearn import RatingRegressor

PAIRS = np.array([(user, item) for user in range(12) for item in range(9) if (user + 2 * item) % 5])
PLAIN = {"decay_users": 0.0, "decay_items": 0.0}
STARS = 1.0 + (PAIRS[:, 0] % 3) + (PAIRS[:, 1] % 3)

# ids of each type by numbers: (pandas, numbers) -> ids
IDS = {
    "padded": lambda pandas, numbers: pandas.Series([f" u{number:<4}" for number in numbers]),
    "whole floats": lambda pandas, numbers: pandas.Series(numbers + 0.0),
    "large floats": lambda pandas, numbers: pandas.Series(numbers * 1e19 + 1e15),
    "small floats": lambda pandas, numbers: pandas.Series(numbers * 1e-7),
    "float32": lambda pandas, numbers: pandas.Series(np.float32(numbers / 10)),
    "categories": lambda pandas, numbers: pandas.Series(pandas.Categorical(numbers * 0.5)),
    "times": lambda pandas, numbers: pandas.Timestamp("2020-01-01") + pandas.Series(pandas.to_timedelta(numbers, "h")),
    "seconds": lambda pandas, numbers: pandas.Series(np.datetime64("2020-01-01", "s") + numbers),
    "nanoseconds": lambda pandas, numbers: pandas.Series(np.datetime64("2020-01-01", "ns") + numbers * 10**9),
    "zones": lambda pandas, numbers: pandas.Series(np.datetime64("2020-01-01", "s") + numbers).dt.tz_localize("UTC"),
    "dates": lambda pandas, numbers: pandas.Series([datetime.date(2020, 1, 1 + number) for number in numbers]),
    "decimals": lambda pandas, numbers: pandas.Series([decimal.Decimal(number) / 4 for number in numbers.tolist()]),
    "bytes": lambda pandas, numbers: pandas.Series([b"u%d" % number for number in numbers]),
    "text": lambda pandas, numbers: pandas.Series([f"u{number}" for number in numbers], dtype=object),
    "whole numbers": lambda pandas, numbers: pandas.Series(numbers, dtype="Int64"),
}


def test_it_predicts_what_the_model_predicts():
    fitted = RatingRegressor("bias").fit(PAIRS, STARS)
    rows = [(int(user), int(item), stars) for (user, item), stars in zip(PAIRS, STARS, strict=True)]
    model = jaxcf.train("bias", rows, progress=False)
    np.testing.assert_array_equal(fitted.predict(PAIRS), model.predict(PAIRS[:, 0], PAIRS[:, 1]))
    assert RatingRegressor("bias", options=PLAIN).fit(PAIRS, STARS).score(PAIRS, STARS) > 0.99, "sums of biases"
    assert np.isfinite(fitted.predict([[999, 0]])).all(), "a user that was not in training"


def test_text_and_data_frames_give_the_same():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: pip install -e '.[test]'")
    names = np.array([(f"u{user}", f"i{item}") for user, item in PAIRS])
    expected = RatingRegressor("bias").fit(names, STARS).predict(names)
    frame = pandas.DataFrame(names, columns=["user", "item"])
    found = RatingRegressor("bias").fit(frame, pandas.Series(STARS)).predict(frame)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(RatingRegressor("bias").fit(PAIRS, STARS).predict(PAIRS), expected, atol=1e-5)


@pytest.mark.parametrize("ids", IDS)
def test_ids_of_any_type_that_one_can_fit_are_found(ids):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: pip install -e '.[test]'")
    users, items = IDS[ids](pandas, PAIRS[:, 0]), IDS[ids](pandas, PAIRS[:, 1])
    expected = RatingRegressor("bias").fit(PAIRS, STARS).predict(PAIRS)
    frame = pandas.DataFrame({"user": users, "item": items})
    fitted = RatingRegressor("bias").fit(frame, STARS)
    np.testing.assert_allclose(fitted.predict(frame), expected, atol=1e-5)
    np.testing.assert_allclose(fitted.predict(frame[:7]), expected[:7], atol=1e-5)

    trained = jaxcf.train("bias", frame.assign(stars=STARS), progress=False)
    np.testing.assert_allclose(trained.predict(frame["user"], frame["item"]), expected, atol=1e-5)
    if ids == "float32":  # whose elements pandas gives as float64
        return
    np.testing.assert_allclose(trained.predict(list(users[:7]), list(items[:7])), expected[:7], atol=1e-5)
    rows = jaxcf.train("bias", list(zip(users, items, STARS, strict=True)), progress=False)
    np.testing.assert_allclose(rows.predict(frame["user"], frame["item"]), expected, atol=1e-5)
    model = jaxcf.train("wmf", frame.assign(count=STARS), num_features=2, epochs=1, progress=False)
    user, item = users[0], items[0]
    assert model.has_user(user)
    assert len(model.similar(item)) == 8
    assert len(model.recommend(ratings={item: 2})) == len(model.recommend(rated=[item])) == 8
    assert model.new_user({item: 2}).ratings.item.tolist() == [model.catalogue.one_item(item)]


def test_cross_validation_and_grid_search():
    folds, plain = KFold(3, shuffle=True, random_state=0), RatingRegressor("bias", options=PLAIN)
    scored = cross_validate(plain, PAIRS, STARS, scoring="neg_root_mean_squared_error", cv=folds)
    assert (scored["test_score"] > -0.1).all()
    search = GridSearchCV(RatingRegressor(), {"model": ["user-bias", "bias"]}, cv=2).fit(PAIRS, STARS)
    assert search.best_params_ == {"model": "bias"}


def test_clone_and_pickle():
    estimator = RatingRegressor("pmf", num_features=2, solver="als", options={"decay": {"*": 1.0}}, random_state=3)
    assert clone(estimator).get_params() == estimator.get_params()
    fitted = estimator.fit(PAIRS, STARS)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(PAIRS), fitted.predict(PAIRS))
    assert repr(fitted.model_).startswith("<pmf: 12 users, 9 items")
    assert again.model_ is again.model_, "it is kept"
    assert np.isfinite(pickle.loads(pickle.dumps(again)).predict(PAIRS)).all()
    before = fitted.model_
    assert fitted.fit(PAIRS, STARS).model_ is not before


@pytest.mark.parametrize(
    ("parameters", "X", "said"),
    [
        ({}, PAIRS[:, :1], "two columns"),
        ({}, PAIRS[:, 0], "two columns"),
        ({}, PAIRS[:0], "there are no ratings"),
        ({"model": "pmf"}, PAIRS[:1], "there are no validation ratings .* - give more ratings"),
        ({"model": "lbl"}, PAIRS, "there is no rating model 'lbl'"),
        ({"epochs": 0}, PAIRS, "give a whole number"),
        ({"model": "bias", "num_features": 3}, PAIRS, "there is no option 'num_features'"),
        ({"model": "popularity"}, PAIRS, "RatingRegressor needs predictions of ratings"),
        ({"options": {"out": "m"}}, PAIRS, "options has out"),
    ],
)
def test_what_cannot_be_trained_is_a_value_error(parameters, X, said):
    with pytest.raises(ValueError, match=said):
        RatingRegressor(**parameters).fit(X, STARS[: len(X)])
