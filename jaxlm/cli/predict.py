"""Predictions of a model: `jaxlm next | sample`."""

import argparse

import numpy as np

from jaxfit.cli import options
from jaxfit.cli.command import Parser, print_json
from jaxlm.cli import model_command
from jaxlm.contract import PredictsWords
from jaxlm.data.corpus import reading_of
from jaxlm.tasks import sample


def add_next(parser: Parser) -> None:
    """Give the parser of `jaxlm next` its options."""
    model_command.add(parser, run_next)
    parser.add_argument(
        "context", metavar="CONTEXT", help='words of a line so far, such as "he has joined the rolling"'
    )
    model_command.add_top(parser)


def add_sample(parser: Parser) -> None:
    """Give the parser of `jaxlm sample` its options."""
    model_command.add(parser, run_sample)
    parser.add_argument("--lines", type=options.number("--lines"), default=5, metavar="N", help="how many (default: 5)")
    parser.add_argument(
        "--seed", type=options.number("--seed", low=0), default=1, metavar="N",
        help="of the draws (default: 1)",
    )  # fmt: skip


def run_next(args: argparse.Namespace) -> None:
    """Print the most probable next words."""
    model = model_command.model_of(args, PredictsWords)
    log_p = model.log_prob(reading_of(model.info).prepare(args.context))
    best = np.argsort(-log_p, kind="stable")[: args.top]
    words = [(model.vocabulary.words[i], float(np.exp(log_p[i]))) for i in best]
    if args.json:
        rows = [{"word": word, "probability": p} for word, p in words]
        print_json({"command": "next", "model": args.directory, "context": args.context, "words": rows})
        return
    width = max(len(word) for word, _ in words)
    for rank, (word, p) in enumerate(words, 1):
        print(f"{rank:3d}  {word:{width}}  {p:.5f}")


def run_sample(args: argparse.Namespace) -> None:
    """Print sentences drawn from the model."""
    model = model_command.model_of(args, PredictsWords)
    lines = []
    for number in range(args.lines):
        words, ended = sample.sentence(model, args.seed, number)
        lines.append(" ".join(words) + ("" if ended else " …"))
        print(lines[-1], flush=True)
    if args.json:
        print_json({"command": "sample", "model": args.directory, "seed": args.seed, "lines": lines})
