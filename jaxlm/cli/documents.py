"""Models of documents: what `jaxlm train` and `eval` do for them, and `jaxlm features | topics`."""

import argparse
import dataclasses
from typing import Any

import numpy as np

from jaxfit.cli import options, streams
from jaxfit.cli.command import note, output, print_answer, required
from jaxfit.cli.help import Rare
from jaxfit.cli.parser import Parser
from jaxfit.errors import UserError
from jaxfit.files.opening import require_read_once
from jaxfit.run_dir.run import Trained
from jaxfit.wording import quantity
from jaxlm.capabilities import EncodesDocuments, HasTopics, PredictsDocuments
from jaxlm.cli import model_command
from jaxlm.data.corpus import reading_of
from jaxlm.data.documents import reading as files
from jaxlm.data.documents.collection import Documents
from jaxlm.data.documents.options import DocumentReading
from jaxlm.data.documents.reading import DocumentFiles
from jaxlm.tasks.documents import DocumentEvaluation, topics, write_vectors
from jaxlm.tasks.retrieval import retrieve
from jaxlm.trained_model import Model


def add_data(parser: Parser, carves: bool) -> None:
    """Add the documents that a model is trained on, and their vocabulary.

    Args:
        carves: whether it takes validation documents from the training documents.
    """
    group = parser.add_argument_group("documents (one a line, also gz, bz2, xz; - is standard input)")
    carved = " (default: a twentieth of the training documents, drawn at random)" if carves else ""
    for name, text in {
        "--train": "training documents",
        "--valid": "validation documents" + carved,
        "--test": "documents to evaluate the finished model on",
    }.items():
        options.files(group, name, text)
    words = parser.add_argument_group("vocabulary; other words are left out")
    chosen = words.add_mutually_exclusive_group()
    chosen.add_argument("--vocab", metavar="FILE", help="a list of words, one a line, in the order of their numbers")
    chosen.add_argument(
        "--vocab-size", type=options.number("--vocab-size", low=2), metavar="N", help="the most frequent words of texts"
    )
    words.add_argument(
        "--min-count", type=options.number("--min-count"), metavar="N",
        help=Rare("leave out words of texts that are seen less often (default: 2)"),
    )  # fmt: skip
    words.add_argument("--stop-words", metavar="FILE", help=Rare("a list of words to leave out of texts, one a line"))
    options.add(parser.add_argument_group("reading"), DocumentReading, switches=True)


def read(args: argparse.Namespace, carve: bool) -> DocumentFiles:
    """Read the documents that a command names."""
    return files.from_files(
        required(args, "train", "name documents: --train FILE"), args.valid or (), args.test or (),
        reading=DocumentReading(**options.given(args, DocumentReading)), vocabulary=args.vocab, size=args.vocab_size,
        min_count=args.min_count, stop_words=args.stop_words, carve=carve,
    )  # fmt: skip


def results(trained: Trained[Model | None], read: DocumentFiles, known: float | None) -> dict[str, Any]:
    """Evaluate a model on validation (whose score training may know) and test documents, where there are any."""
    found: dict[str, Any] = {}
    if trained.model is None or trained.model.record.capability(PredictsDocuments) is None:
        return found
    for name, part in (("valid", read.corpus.valid), ("test", read.corpus.test)):
        if name == "valid" and known is not None:
            number = int(np.count_nonzero(part.lengths))
            found[name] = DocumentEvaluation(-known, number, part.num_words, read.unknown[name])
        elif part.num_words:
            found[name] = trained.model.evaluate_documents(part, read.unknown[name])
    return found


def _documents(args: argparse.Namespace, model: Model, names: list[str]) -> tuple[Documents, int]:
    """Read documents as the model's training documents were read; return them and the number of unknown words."""
    reading = reading_of(model.info, DocumentReading)
    if args.encoding is not None:
        reading = dataclasses.replace(reading, encoding=args.encoding)
    return files.encode(names, model.vocabulary, reading)


def run_eval(args: argparse.Namespace, model: Model) -> None:
    """Print the perplexity of documents."""
    predicts = model.require(PredictsDocuments, "eval", args.directory)
    if args.mix or args.weight is not None or args.fit_weight_on:
        raise UserError("models of documents are not mixed", "--mix, --weight, --fit-weight-on", "leave them out")
    if args.orderings is not None and not predicts.averaged:
        what = f"the probabilities of a {model.name} depend on no order of the words"
        raise UserError(what, "--orderings", "leave it out")
    documents, unknown = _documents(args, model, args.text)
    orderings = args.orderings or 1
    result = model.evaluate_documents(documents, unknown, orderings, 1 if args.seed is None else args.seed)
    if args.json:
        print_answer(args, model.name, {"text": args.text, **result.record()})
        return
    assert result.interval is not None
    low, high = result.interval
    share = unknown / (result.words + unknown)
    print(f"document perplexity  {result.perplexity:.2f} ({low:.2f} to {high:.2f}, 95 % by bootstrap over documents)")
    if result.bound is not None:
        print(f"variational bound    {result.bound:.2f}, which the exact perplexity is at most")
    if result.standard_error is not None:
        print(f"standard error       {result.standard_error:.2f}, of the estimated probabilities, beside the interval")
    print(f"documents            {result.documents:,} ({len(documents) - result.documents:,} more have no words)")
    print(f"words                {result.words:,}")
    print(f"unknown words        {unknown:,} ({100 * share:.1f} %), left out")
    if predicts.averaged:
        print(f"{predicts.averaged:<20} {orderings:,} of each document")


def add_features(parser: Parser) -> None:
    """Give the parser of `jaxlm features` its options."""
    model_command.add(parser, run_features, about="folder of a model of documents")
    parser.add_argument("files", nargs="+", metavar="FILE", help="documents, one a line (- is standard input)")
    parser.add_argument(
        "--out", metavar="FILE",
        help="where to write the vectors, one for each document: an array of NumPy if the name ends in .npy, else text",
    )  # fmt: skip
    model_command.add_encoding(parser)


def run_features(args: argparse.Namespace) -> None:
    """Write a vector for each document."""
    streams.escape()
    out = output(args)
    require_read_once(args.files)
    model = model_command.model_of(args, EncodesDocuments)
    documents, unknown = _documents(args, model, args.files)
    vectors = model.features(documents)
    write_vectors(vectors, out)
    number, size = vectors.shape
    if args.json:
        print_answer(args, model.name, {
            "files": args.files, "out": str(out), "documents": number, "features": size, "unknown": unknown,
        })  # fmt: skip
        return
    print(f"wrote {out} ({quantity(number, 'document')}, {quantity(size, 'number')} each)")


def add_retrieve(parser: Parser) -> None:
    """Give the parser of `jaxlm retrieve` its options."""
    model_command.add(parser, run_retrieve, about="folder of a model of documents")
    parser.add_argument("files", nargs="+", metavar="FILE", help="labelled queries, one document a line")
    options.files(parser, "--database", "labelled documents to rank")
    model_command.add_encoding(parser)


def run_retrieve(args: argparse.Namespace) -> None:
    """Print the precision at levels of recall of documents that are ranked by their vectors."""
    names = required(args, "database", "name labelled documents: --database FILE")
    require_read_once([*args.files, *names])
    model = model_command.model_of(args, EncodesDocuments)
    (queries, unknown), (database, unranked) = (_documents(args, model, each) for each in (args.files, names))
    for each, documents in ((args.files, queries), (names, database)):
        if not any(documents.labels):
            raise UserError("the documents have no labels", each[0], _advice_on_labels(model))
    for file in model_command.shared(args.files, names):
        note(args, f"{file} is in the database, too: each of its documents finds itself first")
    found = retrieve(model.features(queries), model.features(database), queries.labels, database.labels)
    if not len(found.precision):
        raise UserError("no label of these documents is one of the database", args.files[0], "check the labels")
    intervals, left_out = found.intervals(), len(queries) - len(found.precision)
    if args.json:
        print_answer(args, model.name, {
            "files": args.files, "database": names, "queries": len(found.precision), "left_out": left_out,
            "documents": len(database), "unknown": {"queries": unknown, "documents": unranked},
            "by_chance": found.by_chance.tolist(), "recall": found.recalls, "precision": found.mean.tolist(),
            "intervals": intervals,
        })  # fmt: skip
        return
    print(f"{len(found.precision):,} queries, {len(database):,} documents")
    if left_out:
        print(f"left out: {left_out:,} queries without a label of the database")
    print(f"unknown words, left out: {unknown:,} of queries, {unranked:,} of documents")
    print("recall   precision (95 % by bootstrap over queries)  in random order")
    for recall, precision, (low, high), random in zip(
        found.recalls, found.mean, intervals, found.by_chance, strict=True
    ):
        print(f"{recall:<7g}  {precision:.3f} ({low:.3f} to {high:.3f})                      {random:.3f}")


def _advice_on_labels(model: Model) -> str:
    """Say how documents get labels: those for a model are read as its training documents were."""
    reading = reading_of(model.info, DocumentReading)
    if reading.format != "counts" and not reading.labelled:
        return "the model was trained on texts without labels: train it with --labelled"
    return "write them first in each line" + ("" if reading.format == "counts" else ", and then a tab")


def add_topics(parser: Parser) -> None:
    """Give the parser of `jaxlm topics` its options."""
    model_command.add(parser, run_topics, about="folder of a model of documents")
    model_command.add_top(parser)


def run_topics(args: argparse.Namespace) -> None:
    """Print the words with the largest weights to each hidden unit."""
    model = model_command.model_of(args)
    weights = model.require(HasTopics, "topics", args.directory).weights(model.params)
    found = topics(weights, model.vocabulary.words, args.top)
    if args.json:
        rows: list[list[dict[str, Any]]] = [[{"word": word, "weight": w} for word, w in unit] for unit in found]
        print_answer(args, model.name, {"topics": rows})
        return
    for number, unit in enumerate(found, 1):
        print(f"{number:4d}  {' '.join(word for word, _ in unit)}")
