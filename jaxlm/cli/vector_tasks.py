"""Tasks that word vectors are judged by: `jaxlm analogies | similarity`."""

import argparse
import math
from typing import Any

from jaxfit.cli import options
from jaxfit.cli.command import print_answer
from jaxfit.cli.parser import Parser
from jaxlm.capabilities import Embeds
from jaxlm.cli import model_command
from jaxlm.tasks import analogies, similarity


def add_analogies(parser: Parser) -> None:
    """Give the parser of `jaxlm analogies` its options."""
    model_command.add(parser, run_analogies, about=model_command.OF_VECTORS)
    parser.add_argument("file", metavar="FILE", help="questions: sections `: name`, and `a b c d` in each other line")
    parser.add_argument(
        "--most-frequent", type=options.number("--most-frequent"), metavar="N",
        help="ask and answer with the N most frequent words only (default: all)",
    )  # fmt: skip
    model_command.add_vectors(parser)
    model_command.add_reading(parser)


def add_similarity(parser: Parser) -> None:
    """Give the parser of `jaxlm similarity` its options."""
    model_command.add(parser, run_similarity, about=model_command.OF_VECTORS)
    parser.add_argument("file", metavar="FILE", help="two words and people's score in each line")
    model_command.add_vectors(parser)
    model_command.add_reading(parser)


def run_analogies(args: argparse.Namespace) -> None:
    """Print the accuracy of each section, of semantic and syntactic questions, and of all."""
    model = model_command.model_of(args, Embeds)
    reading = model_command.reading(args, model)
    questions = analogies.read(args.file, reading.encoding)
    vectors = model.vectors(args.vectors)
    sections = analogies.judge(vectors, model.vocabulary, questions, reading.prepare, args.most_frequent)
    totals = analogies.totals(sections)
    if args.json:
        print_answer(args, model.name, {
            "vectors": args.vectors, "file": args.file, "most_frequent": args.most_frequent,
            **{score.name: _record(score) for score in totals},
            "sections": [{"name": score.name, **_record(score)} for score in sections],
        })  # fmt: skip
        return
    width = max(len(score.name) for score in (*sections, *totals))
    print(f"{'':{width}}  accuracy   right   asked  left out")
    for score in (*sections, *totals):
        share = "-" if math.isnan(score.accuracy) else f"{100 * score.accuracy:.1f} %"
        print(f"{score.name:{width}}  {share:>8}  {score.right:6,}  {score.asked:6,}  {score.left_out:8,}")


def _record(score: analogies.Score) -> dict[str, Any]:
    return {"accuracy": score.accuracy, "right": score.right, "asked": score.asked, "left_out": score.left_out}


def run_similarity(args: argparse.Namespace) -> None:
    """Print Spearman's correlation of cosines with people's scores."""
    model = model_command.model_of(args, Embeds)
    reading = model_command.reading(args, model)
    pairs = similarity.read(args.file, reading.encoding)
    found = similarity.judge(model.vectors(args.vectors), model.vocabulary, pairs, reading.prepare)
    if args.json:
        print_answer(args, model.name, {
            "vectors": args.vectors, "file": args.file,
            "spearman": found.correlation, "interval": found.interval, "pairs": found.pairs, "left_out": found.left_out,
        })  # fmt: skip
        return
    if math.isnan(found.correlation):
        few = f"there are fewer than {similarity.FEWEST} pairs"
        print(f"Spearman  undefined ({few if found.pairs < similarity.FEWEST else 'all cosines or scores are equal'})")
    else:
        low, high = found.interval
        print(f"Spearman  {found.correlation:.3f} ({low:.3f} to {high:.3f}, 95 % by bootstrap over pairs)")
    print(f"pairs     {found.pairs:,}")
    print(f"left out  {found.left_out:,} (a word is not in the vocabulary, or has no vector)")
