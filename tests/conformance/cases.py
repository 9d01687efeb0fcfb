"""Every model of the registries, and the toys, at a tiny size that follows from its record: no test names a model."""

import contextlib
import dataclasses
import inspect
import io
import json
import typing
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

import jaxcf
import jaxcf.cli.main
import jaxcf.contract
import jaxcf.models
import jaxcf.training
import jaxlm
import jaxlm.cli.main
import jaxlm.contract
import jaxlm.models
import jaxlm.training
from jaxcf.data import reading
from jaxfit.run_dir.run import Run
from jaxlm.data import user_text
from jaxlm.data.documents.reading import from_files as of_files

SMALL = 6  # no whole number of a Config is larger
BATCH, EPOCHS = 8, 2  # of a training: the minibatch divides among 8 devices
# the standard deviation of initial weights; parts of so small a text that an epoch has several steps
TINY = {"init_scale": 0.1, "block_size": 2, "subsample": 0.02, "group_lines": 1}
TOYS = {
    jaxlm: {"lbl-nce": "toys.objectives:LBL", "lbl-topics": "toys.objectives:LBL_TOPICS"},
    jaxcf: {"gibbs-bias": "toys.gibbs_bias:MODEL", "sgd-bias": "toys.sgd_bias:MODEL"},
}
OBJECTIVES = {  # of models whose training is tested with another one
    "nlbl-importance": "toys.objectives:NLBL",
    "nplm-nce": "toys.objectives:NPLM",
    "lbl-classes": "toys.objectives:CLASSES",
    "rnn-classes": "toys.objectives:RNN",
    "gru-importance": "toys.objectives:GRU",
    "lstm-nce": "toys.objectives:LSTM",
    "lbl-tree": "toys.objectives:LBL_TREE",
    "nplm-tree": "toys.objectives:NPLM_TREE",
    "lstm-tree": "toys.objectives:LSTM_TREE",
    "skipgram-tree": "toys.objectives:SKIPGRAM",
    "cbow-tree": "toys.objectives:CBOW",
    "lbl-topics-nce": "toys.objectives:LBL_TOPICS_NCE",
    "gru-topics": "toys.objectives:GRU_TOPICS",
    "docnade-lm-classes": "toys.objectives:DOCNADE_LM",
    "docnade-lm-tree": "toys.objectives:DOCNADE_LM_TREE",
    "docnade-lm-nce": "toys.objectives:DOCNADE_LM_NCE",
    "docnade-lm-softmax": "toys.objectives:DOCNADE_LM_SOFTMAX",
}


@contextlib.contextmanager
def toys_registered():
    """Add the toys to the registries within this context: one more line for each."""
    with pytest.MonkeyPatch.context() as patch:
        for package, lines in TOYS.items():
            for name, where in {**lines, **(OBJECTIVES if package is jaxlm else {})}.items():
                patch.setitem(package.models.MODELS, name, where)
        yield


class Case(NamedTuple):
    """A model, and one of the ways in which it can be fitted."""

    package: Any
    record: Any
    fitting: Any

    def __str__(self):
        return self.record.name if self.is_first else f"{self.record.name}-{self.fitting.name}"

    @property
    def is_first(self):
        return self.package is jaxlm or self.fitting is self.record.fitting[0]

    @property
    def by_sgd(self):
        return isinstance(self.fitting, (jaxlm.contract.BySGD, jaxcf.contract.BySGD))

    def fields(self, overrides):
        """Return overrides of Config that make its whole numbers small, and let parameters grow within few steps."""
        fixed = [*jaxcf.contract.FROM_DATA, *getattr(self.record, "fixed", ())]
        values = {f.name: f.default for f in dataclasses.fields(self.record.config)} | overrides

        def has_effect(field):
            other, needed = field.metadata.get("only_with", (None, ()))
            return other is None or values[other] in needed

        small = {
            f.name: min(values[f.name], SMALL)
            for f in dataclasses.fields(self.record.config)
            if type(f.default) is int and f.name not in fixed and has_effect(f)
        }
        tiny = {f.name: TINY[f.name] for f in dataclasses.fields(self.record.config) if f.name in TINY}
        return {**overrides, **small, **tiny}

    @property
    def recipe(self):
        """The recipe and fields of Config of the training."""
        recipe, overrides = self.record.recipes.get("tuned", (None, {}))
        sizes = {"batch_size": BATCH, "epochs": EPOCHS}
        names = {f.name for f in dataclasses.fields(recipe)} if recipe else ()
        changes = {name: value for name, value in sizes.items() if name in names}
        return recipe and dataclasses.replace(recipe, **changes), self.fields(overrides)

    @property
    def options(self):
        """The same for the command."""
        recipe, overrides = self.recipe
        options = {name: value for name, value in overrides.items() if type(value) is int or name in TINY}
        if self.by_sgd:
            options["batch_size"] = BATCH
        if recipe:
            options["epochs"] = EPOCHS
        options |= {} if self.is_first else {"solver": self.fitting.name}
        return [text for name, value in options.items() for text in (f"--{name.replace('_', '-')}", str(value))]

    def argv(self, place, out):
        """Return the command that trains the model."""
        files = place.text if self.package is jaxlm else place.ratings
        train = "--train" if self.package is jaxlm else "--ratings"
        argv = ["train", self.record.name, train, files["train"], "--valid", files["valid"], "--out", out]
        return [*map(str, argv), *self.options]

    def train(self, place, out, recipe=None, config=None, **run):
        """Train the model as the command does, by the library; config: fields that are changed."""
        own, fields = self.recipe
        more = {"recipe": recipe or own, "config": {**fields, **(config or {})}, "run": Run(**run)}
        if self.package is jaxlm:
            return jaxlm.training.train(self.record.name, place.read_by(self.record), out, **more)
        return jaxcf.training.train(self.record.name, place.dataset, out, solver=self.fitting.name, **more)

    def load(self, directory):
        return self.package.load(directory)

    def call(self, *argv):
        return call(self.package, *argv)


def call(package, *argv):
    """Run a command line: its status, standard output and standard error."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = package.cli.main.main([str(argument) for argument in argv])
    return status, out.getvalue(), err.getvalue()


def succeeds(package, *argv):
    """Run a command line that must succeed: its standard output."""
    status, out, err = call(package, *argv)
    assert status == 0, err
    return out


def is_refused(package, *argv):
    """Run a command line that must end in one line and the exit status 2: that line."""
    status, _, err = call(package, *argv)
    lines = [line for line in err.splitlines() if line.startswith(package.__name__)]
    assert status == 2, err
    assert len(lines) == 1, err
    assert err.rstrip().endswith(lines[0]), err
    return lines[0]


def every(objectives=False):
    """Return a case for each way of fitting of each model, the toys included, and where asked for other objectives."""
    with toys_registered():
        language = [jaxlm.models.get(name) for name in jaxlm.models.MODELS if objectives or name not in OBJECTIVES]
        ratings = [jaxcf.models.get(name) for name in jaxcf.models.MODELS]
    return [
        *(Case(jaxlm, record, record.fitting) for record in language),
        *(Case(jaxcf, record, fitting) for record in ratings for fitting in record.fitting),
    ]


def sampled(cases):
    """Return the cases as parameters of a test: extended, but for the first of those that have the same capabilities.

    Of them, those that read windows of a text are others than those that read contexts.
    """
    first = {}
    for case in cases:
        windows = "window" in {field.name for field in dataclasses.fields(case.record.config)}
        first.setdefault((case.package, windows, frozenset(map(type, case.record.capabilities))), case)
    return [
        pytest.param(case, id=str(case), marks=[] if case in first.values() else pytest.mark.extended) for case in cases
    ]


class Place(NamedTuple):
    """The data, in files and as the library reads them, and a folder for models."""

    folder: Path
    text: dict[str, Path]
    ratings: dict[str, Path]
    corpus: Any
    documents: Any
    dataset: Any

    def read_by(self, record):
        """Return the lines of the text, or each of them as a document, as a language model reads them."""
        return self.documents if record.reads == "documents" else self.corpus


def make_place(folder):
    """Draw a text in which words depend on those before, and ratings of users with a taste."""
    random = np.random.default_rng(0)
    words = np.array(["he", "she", "saw", "took", "tea", "bread", "it", "time", "and", "then"])
    text = {}
    for name, lines in {"train": 25, "valid": 8, "test": 8}.items():
        starts, lengths = random.integers(0, 10, lines), random.integers(2, 6, lines)
        drawn = (words[(s + 2 * np.arange(n) + random.integers(0, 2, n)) % 10]
                 for s, n in zip(starts, lengths, strict=True))  # fmt: skip
        text[name] = folder / f"{name}.txt"
        text[name].write_text("".join(" ".join(line) + "\n" for line in drawn))

    users, items = 32, 12
    pairs = np.stack(np.divmod(random.permutation(users * items), items), axis=1)
    liked = np.sin(pairs[:, 0])[:, None] * np.cos(pairs[:, 1])[:, None]
    stars = np.clip(np.rint(3 + 2 * liked[:, 0] + random.normal(size=len(pairs))), 1, 5)
    table = [f"{u + 1},{i + 1},{s:g}\n" for (u, i), s in zip(pairs, stars, strict=True)]
    # users 1 to 32 and items 1 to 12 are in training; user 33 and item 13 are new
    pieces = {
        "train": table[:200], "valid": table[200:240], "test": table[240:280],
        "new-user": [f"33,{i},{1 + i % 5}\n" for i in range(1, 8)],
        "of-new-user": ["33,9,4\n", "33,10,2\n"],
        "new-item": [f"{u},13,{1 + u % 5}\n" for u in range(1, 12)],
    }  # fmt: skip
    ratings = {name: folder / f"{name}.csv" for name in pieces}
    for name, rows in pieces.items():
        ratings[name].write_text("".join(rows))
    read = user_text.from_files([str(text["train"])], [str(text["valid"])])
    dataset = reading.read_dataset([str(ratings["train"])], [str(ratings["valid"])]).dataset
    documents = of_files([str(text["train"])], [str(text["valid"])]).corpus
    return Place(folder, text, ratings, read.corpus, documents, dataset)


def specification(program, seen):
    """Return the loss of one example: `loss` of the module of the program's loss; None where that takes other examples.

    Args:
        seen: a batch, as the program's loss receives it; an example has the same type.
    """
    home = import_module(getattr(program.loss, "func", program.loss).__module__)
    one = getattr(home, "loss", None)
    if one is None:
        return None
    (_, example, *rest), kind = inspect.signature(one).parameters, type(seen)
    where, hint = f"{home.__name__}.loss", typing.get_type_hints(one).get(example, Any)
    assert hint is not Any, f"annotate `{example}` of {where} with its type: {kind.__name__} if it is as in batches"
    if hint is not kind:
        return None
    known = ["config"], ["key", "config"]
    assert rest in known, f"{where} takes {', '.join(rest)} after the example, not key (optional) and config"
    return lambda params, example, key: one(params, example, *[key][: len(rest) - 1], program.config)


def assert_same(one, other, **tolerance):
    """Assert that two pytrees are equal, bit for bit or within a tolerance."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for x, y in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        if tolerance:
            np.testing.assert_allclose(x, y, **tolerance)
        else:
            np.testing.assert_array_equal(x, y)


def journal(folder):
    """Read the epochs that a training has journaled."""
    return [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
