"""Questions to a model: `jaxlm next | sample | neighbours | tree`."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from jaxfit.cli import options
from jaxfit.cli.command import output, print_answer
from jaxfit.cli.parser import Parser
from jaxfit.errors import Unsupported, UserError
from jaxfit.recipe import SEED
from jaxfit.run_dir.atomic import replacing
from jaxlm import models
from jaxlm.capabilities import Embeds, PredictsWords
from jaxlm.cli import model_command
from jaxlm.contract import LanguageModel
from jaxlm.data.files import Reading, read_lines
from jaxlm.tasks import sample
from jaxlm.trees.file import save as save_tree
from jaxlm.trees.paths import Tree, paths, statistics


def add_next(parser: Parser) -> None:
    """Give the parser of `jaxlm next` its options."""
    model_command.add(parser, run_next)
    parser.add_argument(
        "context", metavar="CONTEXT",
        help='words of a line so far, such as "he has joined the rolling" (- is standard input)',
    )  # fmt: skip
    model_command.add_top(parser)
    model_command.add_encoding(parser)


def add_sample(parser: Parser) -> None:
    """Give the parser of `jaxlm sample` its options."""
    model_command.add(parser, run_sample)
    parser.add_argument("--lines", type=options.number("--lines"), default=5, metavar="N", help="how many (default: 5)")
    parser.add_argument(
        "--seed", type=options.number("--seed", **SEED), default=1, metavar="N",
        help="of the draws (default: 1)",
    )  # fmt: skip
    parser.add_argument("--prefix", default="", metavar="TEXT", help="the first words of each sentence")
    parser.add_argument(
        "--length", type=options.number("--length"), default=100, metavar="N",
        help="words after which a sentence is cut, those of the prefix included (default: 100)",
    )  # fmt: skip
    parser.add_argument(
        "--temperature", type=options.number("--temperature", float, low=0.01), default=1.0, metavar="T",
        help="below 1, probable words become more probable; above 1, less (default: 1)",
    )  # fmt: skip


def add_neighbours(parser: Parser) -> None:
    """Give the parser of `jaxlm neighbours` its options."""
    model_command.add(parser, run_neighbours, about=model_command.OF_VECTORS)
    parser.add_argument("words", nargs="+", metavar="WORD")
    model_command.add_top(parser)
    model_command.add_vectors(parser)


def add_tree(parser: Parser) -> None:
    """Give the parser of `jaxlm tree` its options."""
    model_command.add(parser, run_tree, about="folder of a model")
    parser.add_argument(
        "--out", metavar="FILE",
        help="where to write it: as text, a line `word code` for each code (1 left, 0 right, as in §4.3), if the name "
        "ends in .txt; otherwise a file that `train MODEL --tree` takes",
    )  # fmt: skip


def run_next(args: argparse.Namespace) -> None:
    """Print the most probable next words."""
    model = model_command.model_of(args, PredictsWords)
    context = _context(args, model_command.reading(args, model))
    model_command.note_unknown(args, model, context)
    model.encode_line(context)  # for its errors
    log_p = model.log_prob(context)
    best = np.argsort(-log_p, kind="stable")[: args.top]
    words = [(model.vocabulary.words[i], float(np.exp(log_p[i]))) for i in best]
    if args.json:
        rows = [{"word": word, "probability": p} for word, p in words]
        given = " ".join(context) if args.context == "-" else args.context
        print_answer(args, model.name, {"context": given, "words": rows})
        return
    width = max(len(word) for word, _ in words)
    for rank, (word, p) in enumerate(words, 1):
        print(f"{rank:3d}  {word:{width}}  {p:.5f}")


def _context(args: argparse.Namespace, reading: Reading) -> list[str]:
    """Return the words of the context, which may be the one line of standard input."""
    if args.context != "-":
        return reading.words(args.context)
    lines = [line for line in read_lines("-", reading) if line.strip()]
    if len(lines) != 1:
        raise UserError(f"standard input has {len(lines):,} lines", "-", "give one line, the words of a line so far")
    return lines[0].split()


def run_sample(args: argparse.Namespace) -> None:
    """Print sentences drawn from the model."""
    model = model_command.model_of(args, PredictsWords)
    prefix = model_command.reading(args, model).words(args.prefix)
    model_command.note_unknown(args, model, prefix)
    model.encode_line(prefix)  # for its errors
    result: dict[str, Any] = {"seed": args.seed, "lines": [], "ended": []}
    for number in range(args.lines):
        words, ended = sample.sentence(model, args.seed, number, args.length, prefix, args.temperature)
        result["lines"].append(" ".join(words))
        result["ended"].append(ended)
        if not args.json:
            print(result["lines"][-1] + ("" if ended else " …"), flush=True)
    if args.json:
        print_answer(args, model.name, result)


def run_neighbours(args: argparse.Namespace) -> None:
    """Print the nearest words by the cosine of their feature vectors."""
    model = model_command.model_of(args, Embeds)
    result: dict[str, Any] = {}
    for word in args.words:
        result[word] = [each._asdict() for each in model.neighbours(word, args.top, args.vectors)]
    if args.json:
        print_answer(args, model.name, {"vectors": args.vectors, "neighbours": result})
        return
    for word, rows in result.items():
        print(f"{word}: " + ", ".join(f"{row['word']} {row['cosine']:.2f}" for row in rows))


def _has_tree(model: LanguageModel) -> bool:
    """Return whether a model has a tree over words, whatever its options."""
    structure = model.structure_of({})
    return structure is not None and structure.name == "tree"


def run_tree(args: argparse.Namespace) -> None:
    """Print statistics of the tree, and write its file."""
    model = model_command.model_of(args)
    tree = model.structure
    if not isinstance(tree, Tree):
        what, always = f"tree needs a tree over words; {model.name} has none", models.REGISTRY.having(_has_tree)
        raise Unsupported(what, args.directory, f"use {', '.join(always)} or a model trained with --objective tree")
    counts = model.vocabulary.counts
    found = statistics(tree, np.ones(len(model.vocabulary), np.int64) if counts is None else counts)
    if args.out:
        _write_tree(tree, model.vocabulary.words, output(args))
    if args.json:
        print_answer(args, model.name, {"out": args.out, **found._asdict()})
        return
    print(f"mean code length    {found.mean_code_length:.2f} decisions a word of the training text, all its codes")
    print(f"mean codes          {found.mean_codes:.2f} a word of the training text")
    print(f"non-leaf nodes      {found.num_nodes:,}")


def _write_tree(tree: Tree, words: tuple[str, ...], out: Path) -> None:
    if out.suffix != ".txt":
        save_tree(tree, out, words)
        return
    word_codes, code_nodes, _, signs = paths(tree)
    steps = np.where(signs > 0, "1", "0")
    with replacing(out) as aside, aside.open("w", encoding="utf-8", newline="\n") as file:
        for word, first, last in zip(words, word_codes, word_codes[1:], strict=False):
            for code in range(first, last):
                file.write(f"{word}\t{''.join(steps[code_nodes[code] : code_nodes[code + 1]])}\n")
