"""The readers of all files and of all structured text that users give.

A reader is one entry of `readers`; its `attempt` mutates a valid file and reads it. Reading must return or raise
UserError; where a check is given, what was read must be what the file says.
"""

import functools
import shutil
import warnings
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import jaxcf.cli.main
import jaxlm.cli.main
import seeds
from checks import check_netflix, check_ratings, check_text, check_vocabulary
from jaxcf import model_files
from jaxcf.cli.queries import new_users
from jaxcf.cli.recommend import parse_rated, read_titles
from jaxcf.data.reading import Reading, Table, read, read_dataset, read_either, read_pairs
from jaxcf.data.values import parse_scale
from jaxcf.recommender import Model
from jaxfit.cli.options import number
from jaxfit.errors import UserError
from jaxfit.recipe import Recipe, parse_per_parameter
from jaxfit.run_dir import manifest, metadata
from jaxfit.run_dir.journal import Journal
from jaxlm import model_files as text_model_files
from jaxlm import topics, word_vectors
from jaxlm.data import files, user_text
from jaxlm.data.vocabulary import Vocabulary
from jaxlm.ngram import arpa
from jaxlm.tasks import analogies, completion, rescoring, similarity
from jaxlm.trees import file as tree_file
from jaxlm.trees.paths import paths
from mutations import mutate

SMALL = ["--epochs", "1", "--num-features", "2", "--batch-size", "10"]
MODELS = {  # the command that trains each model whose folder is read
    "kn": (jaxlm.cli.main.main, ["train", "kn", "--order", "3", "--min-count", "2", "--train", "TEXT"]),
    "hlbl": (
        jaxlm.cli.main.main,
        ["train", "hlbl", "--tree", "random", "--min-count", "2", *SMALL, "--train", "TEXT"],
    ),
    "pmf": (jaxcf.cli.main.main, ["train", "pmf", *SMALL, "--ratings", "RATINGS"]),
}


@dataclass(frozen=True)
class File:
    """A reader of one file.

    Attributes:
        valid: contents of valid files.
        read: of a path.
        kind: of `mutations.KINDS`.
        check: (content, what was read), asserts that it is what the file says.
        name: of the file.
    """

    valid: Sequence[bytes]
    read: Callable[[Path], Any]
    kind: str = "text"
    check: Callable[[bytes, Any], None] | None = None
    name: str = "file"

    def attempt(self, rng: np.random.Generator, folder: Path) -> None:
        """Mutate a file, and read it."""
        content = mutate(self.valid[rng.integers(len(self.valid))], self.kind, rng)
        path = folder / self.name
        path.write_bytes(content)
        result = self.read(path)
        if self.check is not None:
            self.check(content, result)


@dataclass(frozen=True)
class Text:
    """A parser of an option's text."""

    valid: Sequence[str]
    parse: Callable[[str], Any]

    def attempt(self, rng: np.random.Generator, folder: Path) -> None:
        """Mutate a text, as a command line could hold it, and parse it."""
        content = mutate(self.valid[rng.integers(len(self.valid))].encode(), "text", rng)
        content = content.replace(b"\0", b"")[: 1 << 17]  # no more is given to a process
        self.parse(content.decode("utf-8", "surrogateescape"))


@dataclass(frozen=True)
class Command:
    """A command on a model's folder, one of whose files is changed: in `argv`, DIR stands for the folder."""

    models: Path
    model: str
    argv: Sequence[str]

    def attempt(self, rng: np.random.Generator, folder: Path) -> None:
        """Mutate or remove a file of a copy of the model, with a manifest that agrees with it or not, and use it."""
        place = folder / "model"
        shutil.copytree(self.models / self.model, place)
        below = rng.integers(8) == 0  # the many files of the parameters, or those of the folder itself
        names = sorted(p.relative_to(place) for p in (place.rglob if below else place.glob)("*") if p.is_file())
        name = names[rng.integers(len(names))]
        kind = {".json": "json", ".npz": "npz", ".txt": "text", ".jsonl": "json"}.get(name.suffix, "bytes")
        content = mutate((place / name).read_bytes(), kind, rng)
        if rng.integers(20):
            (place / name).write_bytes(content)
        else:
            (place / name).unlink()
        # nothing but the manifest protects arrays: what Orbax makes of damaged ones is not ours
        if rng.integers(4) and name.parts[0] != metadata.PARAMETERS and name.name != manifest.NAME:
            metadata.write_manifest(place, (*model_files.FILES, *text_model_files.FILES))
        _run(MODELS[self.model][0], self.argv, DIR=place, TEXT=self.models / "train.txt")


def _run(main: Callable[[Sequence[str]], int], argv: Sequence[str], **places: Path) -> None:
    status = main([str(places.get(argument, argument)) for argument in argv])
    if status == 2:
        raise UserError("the command has printed it")
    assert status == 0, f"exit status {status}"


def make_models(folder: Path) -> Path:
    """Train the models whose folders are read, in a folder, with their text and ratings."""
    text, table = folder / "train.txt", folder / "ratings.csv"
    text.write_bytes(seeds.TEXT * 4)
    table.write_bytes(seeds.RATINGS["named"])
    for name, (main, argv) in MODELS.items():
        _run(main, [*argv, "--out", "DIR"], DIR=folder / name, TEXT=text, RATINGS=table)
    return folder


@functools.cache
def _recommender(models: Path) -> Model:
    return model_files.load(models / "pmf")


def _text(**options: Any) -> Callable[[Path], Any]:
    return lambda path: user_text.from_files([str(path)], reading=files.Reading(**options), carve=False, closed=True)


def _ratings(*names: str) -> File:
    return File([seeds.RATINGS[name] for name in names], read, check=check_ratings)


def _arpa(path: Path) -> None:
    """Read a model, and ask it for probabilities."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # probabilities do not sum to one
        model, words = arpa.read(path)
    ids = np.arange(len(words), dtype=np.int32)
    log_probs = model.event_log_probs(np.append(ids[ids != model.eos], model.eos))
    assert not np.isnan(log_probs).any(), "a probability is not a number"
    assert not np.isnan(model.log_prob(ids[:3])).any(), "a probability is not a number"


def _rescored(path: Path) -> None:
    """Read lists, and choose from each."""
    for hypotheses in rescoring.read(path).values():
        table = rescoring.features(hypotheses, np.zeros(len(hypotheses)))
        rescoring.choose(table, [[1, 8, 0, 8]])
        rescoring.word_errors([hypothesis.text.split() for hypothesis in hypotheses], ["the", "cat"])


def _netflix_folder(path: Path) -> Table:
    """Read a folder of this file and another one."""
    place = path.with_name("training_set")
    place.mkdir(exist_ok=True)
    path.replace(place / "mv_0000001.txt")
    (place / "mv_0000002.txt").write_bytes(b"2:\n7,3,2005-09-06\n")
    return read(place)


def _journal(path: Path) -> None:
    path.replace(path.with_name("journal.jsonl"))
    Journal(path.parent).lines()


def _columns(models: Path, text: str) -> Table:
    columns, _, delimiter = text.partition(" ")
    return read(models / "ratings.csv", Reading(columns=columns, delimiter=delimiter or None))


def _recipe(text: str) -> None:
    """Read rates, which a recipe must hold to their bounds."""
    recipe = Recipe("sgd", 1, 1, parse_per_parameter(text, "--rate"), {})
    assert all(0 <= rate < np.finfo(np.float32).max for rate in recipe.rate.values())


def readers(models: Path) -> dict[str, File | Text | Command]:
    """Return all readers by name; models: the folder of `make_models`."""
    return {
        "text": File([seeds.TEXT], _text(), check=check_text),
        "text in Latin-1": File([seeds.TEXT.decode().encode("latin-1", "ignore")], _text(encoding="latin-1")),
        "text in UTF-16": File([seeds.TEXT.decode().encode("utf-16")], _text(encoding="utf-16")),
        "text preprocessed": File([seeds.TEXT], _text(lower=True, numbers=True, punctuation=True)),
        "vocabulary": File(seeds.VOCABULARIES, Vocabulary.load, check=check_vocabulary),
        "ARPA": File([seeds.ARPA], _arpa),
        "tree": File([seeds.TREE], lambda path: (paths(tree_file.load(path)), tree_file.words_of(path)), "npz"),
        "topics": File([seeds.TOPICS], lambda path: topics.load(path.parent, 5), "npz", name=topics.FILE),
        "word vectors": File(seeds.VECTORS, word_vectors.read),
        "binary word vectors": File(seeds.BINARY_VECTORS, word_vectors.read, "bytes"),
        "analogies": File([seeds.ANALOGIES], analogies.read),
        "similarity": File(seeds.SIMILARITY, similarity.read),
        "sentence completion": File([seeds.QUESTIONS], completion.read),
        "n-best lists": File([seeds.NBEST], _rescored),
        "references": File([seeds.REFERENCES], lambda path: rescoring.read_references(path, ["u1", "u2"])),
        "CSV": _ratings("plain", "header", "named", "dates", "text ids"),
        "CSV quoted": _ratings("semicolon", "quoted"),
        "CSV with decimal commas": File([seeds.RATINGS["commas"]], lambda path: read(path, Reading(decimal=","))),
        "CSV with bad lines": File([seeds.RATINGS["bad"]], lambda path: read(path, Reading(skip_bad=3))),
        "JSON lines": File([seeds.JSON_LINES], read),
        "Parquet": File([seeds.PARQUET], read, "bytes"),
        "MovieLens": _ratings("u.data", "ratings.dat"),
        "Netflix": File([seeds.NETFLIX["file"], seeds.NETFLIX["combined"]], read, check=check_netflix),
        "Netflix pairs": File([seeds.NETFLIX["probe"], seeds.NETFLIX["qualifying"]], read_pairs, check=check_netflix),
        "Netflix folder": File([seeds.NETFLIX["file"]], _netflix_folder),
        "MATLAB": File([seeds.MATLAB], lambda path: read_dataset(str(path)), "mat", name="ratings.mat"),
        "pairs": File(seeds.PAIRS, read_pairs, check=check_ratings),
        "ratings or pairs": File([*seeds.PAIRS, seeds.RATINGS["named"], seeds.NETFLIX["probe"]], read_either),
        "titles": File(seeds.TITLES, lambda path: read_titles(str(path), np.arange(1, 11))),
        "new users": File(
            [seeds.RATINGS["plain"], seeds.RATINGS["header"]],
            lambda path: new_users(Namespace(quiet=True), _recommender(models), [str(path)], None),
        ),
        "journal": File([seeds.JOURNAL], _journal, "json"),
        "option --rated": Text(["1:5,2:4", "1:2.5"], lambda text: _recommender(models).new_user(*parse_rated(text))),
        "option --scale": Text(["1,5,1", "0.5,5,0.5", "-10,10,0"], parse_scale),
        "option --columns": Text(["2,1,3", "user,item,stars ,", "1,2,3,4 comma"], lambda text: _columns(models, text)),
        "option --rate": Text(["0.1", "0.01,b=0.1", "R=1e-5,C=0"], _recipe),
        "option --epochs": Text(["1", "20"], number("--epochs")),
        "n-gram model": Command(models, "kn", ["score", "DIR", "TEXT"]),
        "n-gram model's description": Command(models, "kn", ["info", "DIR"]),
        "language model": Command(models, "hlbl", ["next", "DIR", "the cat"]),
        "language model's description": Command(models, "hlbl", ["info", "DIR"]),
        "recommender": Command(models, "pmf", ["recommend", "DIR", "--user", "3"]),
        "recommender's description": Command(models, "pmf", ["info", "DIR"]),
    }
