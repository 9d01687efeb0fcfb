"""What the commands that use a trained model have in common: their arguments, and loading the model."""

import argparse
import dataclasses
import functools
import os
from collections.abc import Iterable

from jaxfit.cli import command, options
from jaxfit.cli.parser import Parser
from jaxfit.registry import Capability
from jaxlm.data.corpus import reading_of
from jaxlm.data.files import Reading
from jaxlm.data.vocabulary import UNK
from jaxlm.model_files import load
from jaxlm.trained_model import Model

SHOWN = 10  # unknown words that are named
OF_VECTORS = "folder of a model, or word vectors in a file of word2vec's form, text or binary"
add = functools.partial(command.add_model, about="folder of a model, or an ARPA file")


def add_top(parser: Parser) -> None:
    """Add the number of words to show."""
    parser.add_argument(
        "--top", type=options.number("--top"), default=10, metavar="N", help="how many words (default: 10)"
    )


def add_vectors(parser: Parser) -> None:
    """Add the choice of a model's word vectors."""
    parser.add_argument(
        "--vectors", metavar="NAME",
        help="the parameter whose rows are the word vectors, of models with several sets; a wrong name lists them "
        "(default: the model's usual ones)",
    )  # fmt: skip


def add_encoding(parser: Parser) -> None:
    """Add the encoding of the text that a command reads."""
    parser.add_argument("--encoding", metavar="NAME", help="of the text (default: that of the training text)")


def add_reading(parser: Parser) -> None:
    """Add options of how a command reads sentences and words that were written for other texts than the model's."""
    of_text = parser.add_argument_group("reading, where it is not as that of the training text")
    options.add(of_text, Reading, defaults={"encoding": "that of the training text"}, switches=True)


def reading(args: argparse.Namespace, model: Model) -> Reading:
    """Return how a command reads its text: as the training text was read, with what is given besides."""
    given = {name: value for name, value in options.given(args, Reading).items() if value is not None}
    return dataclasses.replace(reading_of(model.info), **given)


def note_unknown(args: argparse.Namespace, model: Model, words: Iterable[str]) -> None:
    """Say which of the words are read as `<unk>`."""
    if model.vocabulary.unk is None:  # they are an error
        return
    unknown = [word for word in dict.fromkeys(words) if word not in model.vocabulary.ids]
    if unknown:
        shown = ", ".join(map(repr, unknown[:SHOWN])) + (f" and {len(unknown) - SHOWN:,} more" * (len(unknown) > SHOWN))
        what = "an unknown word, read" if len(unknown) == 1 else "unknown words, read"
        command.note(args, f"{what} as {UNK}: {shown}")


def shared(files: Iterable[str], others: Iterable[str]) -> list[str]:
    """Return those of the files that are among the others, by whatever name, each once."""
    known = {os.path.realpath(file) for file in others}
    return [file for file in dict.fromkeys(files) if os.path.realpath(file) in known]


def model_of(args: argparse.Namespace, needed: type[Capability] | None = None) -> Model:
    """Load the model that a command names; raises UserError where it has not the capability that is needed."""
    model = load(args.directory, unfinished=args.unfinished, verify=args.verify)
    if needed is not None:
        model.require(needed, args.command, args.directory)
    return model
