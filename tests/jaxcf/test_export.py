"""Factors for other programs: searching items by inner products gives what the model recommends."""

import json
import warnings

import numpy as np
import pytest

import jaxcf
from jaxcf import export
from jaxcf.cli import main as cli
from jaxcf.data.ratings import EMPTY
from jaxfit.errors import UserError

TOP, USERS = 5, 12


@pytest.fixture(scope="module", params=["pmf", "wmf"])
def model(request):
    """Train a model of ratings on a scale of its own, for which mean and unit matter, or of counts."""
    random = np.random.default_rng(0)
    rows = [(f"u{u}", f"i {i}", 20 * (1 + (u * i) % 5) + 7) for u in range(USERS) for i in range(30)]
    rows = [rows[i] for i in random.permutation(len(rows))[:200]]
    return jaxcf.train(request.param, rows, num_features=4, epochs=2, init_scale=0.1, progress=False)


def best(model):
    """Return what the model ranks highest for each user, known items included: rows of items, and their scores."""
    nothing_known = model.known._replace(ratings=EMPTY)
    scores = model.scorer(np.arange(USERS, dtype=np.int32))
    answers = model.best(model.scorer, nothing_known, range(USERS), TOP)
    return [[answer.item for answer in row] for row in answers], np.sort(scores, axis=1)[:, : -TOP - 1 : -1]


def test_the_highest_inner_products_are_what_the_model_ranks_highest(model, tmp_path):
    export.factors(model, tmp_path / "f")
    users, items = (np.load(tmp_path / "f" / f"{name}.npy", mmap_mode="r") for name in ("users", "items"))
    ids, (expected, scores) = (tmp_path / "f" / "items.txt").read_text().splitlines(), best(model)
    products = users @ items.T
    places = np.argsort(-products, axis=1, kind="stable")[:, :TOP]
    assert [[ids[place] for place in row] for row in places] == expected
    np.testing.assert_allclose(np.take_along_axis(products, places, axis=1), scores, rtol=1e-5, atol=1e-6)


@pytest.mark.peer
def test_faiss_finds_what_the_model_ranks_highest(model, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # theirs
        faiss = pytest.importorskip("faiss", reason="faiss is not installed: pip install -e '.[peers-quick]'")
    export.factors(model, tmp_path / "f")
    users, items = (np.load(tmp_path / "f" / f"{name}.npy", mmap_mode="r") for name in ("users", "items"))
    index = faiss.IndexFlatIP(items.shape[1])
    index.add(items)
    found, places = index.search(np.asarray(users), TOP)
    ids, (expected, scores) = (tmp_path / "f" / "items.txt").read_text().splitlines(), best(model)
    assert [[ids[place] for place in row] for row in places] == expected
    np.testing.assert_allclose(found, scores, rtol=1e-5, atol=1e-6)


def test_only_a_new_folder_is_written(tmp_path, capsys):
    rows = [("anna", "Solaris", 5), ("anna", "Stalker", 4), ("bert", "Solaris", 3)]
    few = jaxcf.train("bias", rows, out=tmp_path / "m", progress=False)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine").touch()
    with pytest.raises(UserError, match="the folder has files"):
        export.factors(few, tmp_path / "taken")
    out = str(tmp_path / "new")
    assert cli.main(["export", str(tmp_path / "m"), "--format", "numpy", "--out", out, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["format"], printed["arrays"]) == ("numpy", {"users": [2, 2], "items": [2, 2]})
    assert cli.main(["export", str(tmp_path / "m"), "--format", "numpi", "--out", out]) == 2
    assert "did you mean numpy?" in capsys.readouterr().err
