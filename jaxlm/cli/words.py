"""The feature vectors and the tree of a model's words: `jaxlm neighbours | tree`."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from jaxfit.cli.command import Parser, output, print_json
from jaxfit.run_dir.atomic import replacing
from jaxlm.cli import model_command
from jaxlm.contract import Embeds, HasTree
from jaxlm.tasks import neighbours
from jaxlm.trees.file import save as save_tree
from jaxlm.trees.paths import Tree, paths, statistics


def add_neighbours(parser: Parser) -> None:
    """Give the parser of `jaxlm neighbours` its options."""
    model_command.add(parser, run_neighbours, "folder of a model")
    parser.add_argument("words", nargs="+", metavar="WORD")
    model_command.add_top(parser)


def add_tree(parser: Parser) -> None:
    """Give the parser of `jaxlm tree` its options."""
    model_command.add(parser, run_tree, "folder of a model")
    parser.add_argument(
        "--out", metavar="FILE",
        help="where to write it: as text, a line `word code` for each code (0 left, 1 right), if the name ends in "
        ".txt; otherwise a file that `train MODEL --tree` takes",
    )  # fmt: skip


def run_neighbours(args: argparse.Namespace) -> None:
    """Print the nearest words by the cosine of their feature vectors."""
    model = model_command.model_of(args)
    units = neighbours.unit_vectors(model.require(Embeds, "neighbours", args.directory).vectors(model.params))
    result: dict[str, Any] = {}
    for word in args.words:
        ids, cosines = neighbours.nearest(units, neighbours.find(model.vocabulary, word), args.top)
        result[word] = [
            {"word": model.vocabulary.words[i], "cosine": float(c)} for i, c in zip(ids, cosines, strict=True)
        ]
    if args.json:
        print_json({"command": "neighbours", "model": args.directory, "neighbours": result})
        return
    for word, rows in result.items():
        print(f"{word}: " + ", ".join(f"{row['word']} {row['cosine']:.2f}" for row in rows))


def run_tree(args: argparse.Namespace) -> None:
    """Print statistics of the tree, and write its file."""
    model = model_command.model_of(args)
    model.require(HasTree, "tree", args.directory)
    tree = model.structure
    counts = model.vocabulary.counts
    found = statistics(tree, np.ones(len(model.vocabulary), np.int64) if counts is None else counts)
    if args.out:
        _write_tree(tree, model.vocabulary.words, output(args))
    if args.json:
        print_json({"command": "tree", "model": args.directory, "out": args.out, **found._asdict()})
        return
    print(f"mean code length    {found.mean_code_length:.2f} decisions a word of the training text, all its codes")
    print(f"mean codes          {found.mean_codes:.2f} a word of the training text")
    print(f"non-leaf nodes      {found.num_nodes:,}")


def _write_tree(tree: Tree, words: tuple[str, ...], out: Path) -> None:
    if out.suffix != ".txt":
        save_tree(tree, out)
        return
    word_codes, code_nodes, _, signs = paths(tree)
    steps = np.where(signs > 0, "0", "1")
    with replacing(out) as aside, aside.open("w", encoding="utf-8", newline="\n") as file:
        for word, first, last in zip(words, word_codes, word_codes[1:], strict=False):
            for code in range(first, last):
                file.write(f"{word}\t{''.join(steps[code_nodes[code] : code_nodes[code + 1]])}\n")
