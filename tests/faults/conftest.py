"""Small models of every kind, trained by the commands, for tests that harm them."""

import functools

import numpy as np
import pytest

import jaxcf
import jaxlm
from jaxcf.cli.main import main as cf
from jaxcf.contract import BySGD
from jaxcf.models import REGISTRY as RATING_MODELS
from jaxlm.cli.main import main as lm
from jaxlm.contract import BySGD as LanguageBySGD
from jaxlm.data.files import EOS
from jaxlm.models import REGISTRY as LANGUAGE_MODELS

SMALL = ["--epochs", "3", "--batch-size", "20"]


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """Make a folder with a text and a table of ratings."""
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    lines = [" ".join(f"w{(i + k) % 9}" for k in range(5)) for i in rng.integers(9, size=60)]
    (folder / "text").write_text("\n".join(lines) + "\n")
    pairs = [(user, item) for user in range(12) for item in rng.choice(9, 5, replace=False)]
    rows = [
        f"u{user},i{item},{stars}" for (user, item), stars in zip(pairs, rng.integers(1, 6, len(pairs)), strict=True)
    ]
    (folder / "ratings").write_text("\n".join(["user,item,stars", *rows]) + "\n")
    return folder


@pytest.fixture(scope="session")
def command(data):
    """command(name, out) -> the function that runs a command, and the arguments that train a model in `out`."""

    def of(name, out):
        if name in LANGUAGE_MODELS.names():
            small = SMALL if isinstance(LANGUAGE_MODELS.get(name).fitting, LanguageBySGD) else []
            features = ["--num-features", "3", "--context-size", "2"] if small else []
            return lm, ["train", name, "--train", str(data / "text"), *small, *features, "--out", str(out)]
        small = SMALL if isinstance(RATING_MODELS.get(name).solver(None), BySGD) else []
        return cf, ["train", name, "--ratings", str(data / "ratings"), *small, "--out", str(out)]

    return of


@pytest.fixture(scope="session")
def trained(command, tmp_path_factory):
    """trained(name) -> the folder of a finished model, which is not to be changed."""

    @functools.cache
    def of(name):
        out = tmp_path_factory.mktemp(name) / "model"
        main, argv = command(name, out)
        assert main([*argv, "--quiet"]) == 0
        return out

    return of


@pytest.fixture(scope="session")
def answer(data):
    """answer(folder) -> numbers that depend on all of a model's files; raises UserError where it is refused."""

    def of(folder, **options):
        if (folder / "catalogue.npz").exists() or not (folder / "vocabulary.txt").exists():
            model = jaxcf.load(folder, **options)
            if model.record.implicit:
                return np.append(
                    model.scorer(np.arange(9)), [len(model.known.ratings.user), len(model.catalogue.users)]
                )
            users, items = ([f"{kind}{i}" for i in range(9)] for kind in "ui")
            return np.append(model.predict(users, items), len(model.catalogue.users))
        model = jaxlm.load(folder, **options)
        words = [word for word in model.vocabulary.words if word != EOS]
        contexts = (" ".join(words[k : k + 2]) for k in range(3))
        return np.concatenate([model.log_prob(context) for context in contexts])

    return of
