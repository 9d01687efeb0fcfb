"""What is done with a trained model: `jaxlm eval | score | next | sample | neighbours | tree | info | export`."""

import argparse
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxfit.cli import options
from jaxfit.cli.command import Parser, print_json
from jaxfit.errors import UserError
from jaxfit.run_dir.atomic import replacing
from jaxfit.run_dir.journal import Journal
from jaxfit.run_dir.metadata import CONFIG
from jaxlm.data.corpus import reading_of
from jaxlm.data.encoding import Encoded, encode
from jaxlm.export import FORMATS
from jaxlm.tasks import mixture, neighbours, sample
from jaxlm.tasks.evaluate import LN10, evaluate, line_log_probs
from jaxlm.trained_model import Model, load
from jaxlm.trees.file import save as save_tree
from jaxlm.trees.paths import Tree, paths, statistics


def add(commands: Any) -> None:
    """Add the commands to those of `jaxlm`."""
    model = "folder of a model, or an ARPA file"

    def command(name: str, about: str, run: Any, directory: str = "folder of a model") -> Parser:
        parser = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        parser.set_defaults(run=run)
        parser.add_argument("directory", metavar="DIR", help=directory)
        return parser

    parser = command("eval", "perplexity of a text, also under two models mixed", run_eval, model)
    parser.add_argument("--text", nargs="+", metavar="FILE", help="text to evaluate on (- is standard input)")
    parser.add_argument(
        "--mix", metavar="DIR2", help="a second model over the same vocabulary, to be mixed in"
    )
    weight = parser.add_mutually_exclusive_group()
    weight.add_argument(
        "--weight", type=options.number("--weight", float, high=1), metavar="A",
        help="share of DIR in the mixture (0 to 1; default: 0.5)",
    )  # fmt: skip
    weight.add_argument(
        "--fit-weight-on", nargs="+", metavar="FILE", help="validation text to choose the share by"
    )
    _json(parser)

    parser = command("score", "base-10 log-probability of each line, its end included", run_score, model)
    parser.add_argument(
        "file", nargs="?", default="-", metavar="FILE", help="sentences (default: standard input)"
    )
    _json(parser)

    parser = command("next", "the most probable next words after a context", run_next, model)
    parser.add_argument(
        "context", metavar="CONTEXT", help='words of a line so far, such as "he has joined the rolling"'
    )
    _top(parser, 10)
    _json(parser)

    parser = command("sample", "sentences drawn from a model", run_sample, model)
    parser.add_argument(
        "--lines", type=options.number("--lines"), default=5, metavar="N", help="how many (default: 5)"
    )
    parser.add_argument(
        "--seed",
        type=options.number("--seed", low=0),
        default=1,
        metavar="N",
        help="of the draws (default: 1)",
    )
    _json(parser)

    parser = command("neighbours", "words with the most similar feature vectors", run_neighbours)
    parser.add_argument("words", nargs="+", metavar="WORD")
    _top(parser, 10)
    _json(parser)

    parser = command("tree", "the tree over words of an hlbl: its statistics (Table 4.3) and file", run_tree)
    parser.add_argument(
        "--out", metavar="FILE",
        help="where to write it: as text, a line `word code` for each code (0 left, 1 right), if the name ends in "
        ".txt; otherwise a file for train hlbl --tree",
    )  # fmt: skip
    _json(parser)

    parser = command("info", "what a model is and how its training went", run_info, model)
    _json(parser)

    parser = command("export", "write a model for other programs", run_export, model)
    parser.add_argument(
        "--format", type=options.choice("--format", FORMATS), metavar="|".join(FORMATS), help="of the file"
    )
    parser.add_argument("--out", metavar="FILE", help="where to write it")
    _json(parser)


def _json(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="print the result as one line of JSON")


def _top(parser: Parser, default: int) -> None:
    parser.add_argument(
        "--top",
        type=options.number("--top"),
        default=default,
        metavar="N",
        help=f"how many words (default: {default})",
    )


def run_eval(args: argparse.Namespace) -> None:
    """Perplexity, events, unknown words, log-probability."""
    files = _required(args, "text", "name a text: --text FILE")
    if not args.mix and (args.weight is not None or args.fit_weight_on):
        raise UserError("there is no second model to mix", "--weight, --fit-weight-on", "name it: --mix DIR2")
    model = load(args.directory)
    texts = [files] + ([args.fit_weight_on] if args.fit_weight_on else [])
    encoded = [_encode(model, files) for files in texts]
    log_probs = [model.event_log_probs(text.ids) for text in encoded]
    result: dict[str, Any] = {"command": "eval", "model": args.directory, "text": files}
    if args.mix:
        second = load(args.mix)
        others = [second.event_log_probs(_exchange(text.ids, model, second, args)) for text in encoded]
        weight = 0.5 if args.weight is None else args.weight
        if args.fit_weight_on:
            weight = mixture.fit_weight(log_probs[1], others[1])
        singles = [evaluate(values[0]).perplexity for values in (log_probs, others)]
        log_probs = [mixture.mix(log_probs[0], others[0], weight)]
        result |= {"mix": args.mix, "weight": weight, "perplexities": singles}
    evaluation = evaluate(log_probs[0], encoded[0].unknown)
    result |= evaluation.record()
    if args.json:
        print_json(result)
        return
    print(f"perplexity       {evaluation.perplexity:.2f}")
    if args.mix:
        (first, second_alone), kind = singles, "fitted" if args.fit_weight_on else "given"
        print(
            f"  mixture        {weight:.4f} of {args.directory} and {1 - weight:.4f} of {args.mix} ({kind})"
        )
        print(f"  each alone     {first:.2f} and {second_alone:.2f}")
    print(f"events           {evaluation.events:,} (words and line ends)")
    share = evaluation.unknown / max(evaluation.events, 1)
    print(f"unknown words    {evaluation.unknown:,} ({100 * share:.1f} %)")
    print(f"log-probability  {evaluation.log_prob:,.1f} nats")


def _encode(model: Model, files: list[str]) -> Encoded:
    return encode(files, model.vocabulary, reading_of(model.info))


def _exchange(ids: np.ndarray, model: Model, second: Model, args: argparse.Namespace) -> np.ndarray:
    """Ids of the same words in the second model's order; the two must know the same words."""
    if model.vocabulary.words == second.vocabulary.words:
        return ids
    if set(model.vocabulary.words) != set(second.vocabulary.words):
        here, there = set(model.vocabulary.words), set(second.vocabulary.words)
        odd = min(here ^ there)
        owner = args.directory if odd in here else args.mix
        raise UserError(
            f"different vocabularies, of {len(here):,} and {len(there):,} words: {odd!r} is only in {owner}",
            f"{args.directory}, {args.mix}",
            "train both on the same text, or one with --vocab and the other's vocabulary.txt",
        )
    return np.array([second.vocabulary.ids[word] for word in model.vocabulary.words], np.int32)[ids]


def run_score(args: argparse.Namespace) -> None:
    """One log10 probability a line."""
    model = load(args.directory)
    ids = _encode(model, [args.file]).ids
    log_probs = model.event_log_probs(ids, fresh_lines=True)
    scores = line_log_probs(log_probs, ids, model.vocabulary.eos) / LN10
    sys.stdout.writelines(f"{score:.6f}\n" for score in scores)
    if args.json:
        print_json(
            {"command": "score", "model": args.directory, "lines": len(scores), "log10": scores.tolist()}
        )


def run_next(args: argparse.Namespace) -> None:
    """The most probable next words."""
    model = load(args.directory)
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
    """Sentences drawn from the model."""
    model, key = load(args.directory), jax.random.key(args.seed)
    lines = []
    for number in range(args.lines):
        words, ended = sample.sentence(jax.random.fold_in(key, number), model)
        lines.append(" ".join(words) + ("" if ended else " …"))
        print(lines[-1], flush=True)
    if args.json:
        print_json({"command": "sample", "model": args.directory, "seed": args.seed, "lines": lines})


def run_neighbours(args: argparse.Namespace) -> None:
    """The nearest words by the cosine of their feature vectors."""
    model = load(args.directory)
    if not hasattr(model.params, "R"):
        raise UserError("an n-gram model has no feature vectors", args.directory, "name an lbl or hlbl")
    result: dict[str, Any] = {}
    for word in args.words:
        ids, cosines = neighbours.nearest(model.params.R, neighbours.find(model.vocabulary, word), args.top)
        result[word] = [
            {"word": model.vocabulary.words[i], "cosine": float(c)} for i, c in zip(ids, cosines, strict=True)
        ]
    if args.json:
        print_json({"command": "neighbours", "model": args.directory, "neighbours": result})
        return
    for word, rows in result.items():
        print(f"{word}: " + ", ".join(f"{row['word']} {row['cosine']:.2f}" for row in rows))


def run_tree(args: argparse.Namespace) -> None:
    """Statistics of the tree, and its file."""
    model = load(args.directory)
    if model.tree is None:
        raise UserError(f"a model of kind {model.kind} has no tree", args.directory, "name an hlbl")
    counts = model.vocabulary.counts
    found = statistics(model.tree, np.ones(len(model.vocabulary), np.int64) if counts is None else counts)
    if args.out and Path(args.out).is_dir():
        raise UserError("a directory stands where a file should", args.out, "name a file")
    if args.out:
        _write_tree(model.tree, model.vocabulary.words, Path(args.out))
    if args.json:
        print_json({"command": "tree", "model": args.directory, "out": args.out, **found._asdict()})
        return
    print(
        f"mean code length    {found.mean_code_length:.2f} decisions a word of the training text, all its codes"
    )
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


def run_info(args: argparse.Namespace) -> None:
    """What the model is, its sizes, and how its training went."""
    directory = Path(args.directory)
    model = load(directory)
    sizes = _sizes(model)
    history = Journal(directory).lines() if (directory / CONFIG).exists() else []
    best = min(history, key=lambda line: line["valid"], default=None)
    if args.json:
        print_json({
            "command": "info", "model": args.directory, **model.info, "words": len(model.vocabulary),
            "sizes": sizes, "history": history,
        })  # fmt: skip
        return
    print(f"model         {model.kind}, {len(model.vocabulary):,} words")
    for title, name in (("settings", "config"), ("recipe", "recipe")):
        if model.info.get(name):
            print(f"{title:13} " + ", ".join(f"{k} {options.show(v)}" for k, v in model.info[name].items()))
    data = model.info.get("corpus")
    if data:
        print(f"trained on    {data['name']}, {data['training events']:,} events")
    print("sizes         " + ", ".join(f"{name} {size}" for name, size in sizes.items()))
    if best is not None:
        print(
            f"training      {len(history)} epochs, best validation perplexity {np.exp(best['valid']):.2f} "
            f"after epoch {best['epoch'] + 1}" + ("" if model.info.get("finished") else ", not finished")
        )


def _sizes(model: Model) -> dict[str, str]:
    if hasattr(model.params, "tables"):
        return {f"{k}-grams": f"{len(t.keys) - (k == 1):,}" for k, t in enumerate(model.params.tables, 1)}
    return {name: "x".join(map(str, a.shape)) for name, a in model.params._asdict().items()}


def run_export(args: argparse.Namespace) -> None:
    """Write the model for other programs."""
    form = _required(args, "format", f"choose from {', '.join(FORMATS)}")
    out = Path(_required(args, "out", "name a file: --out FILE"))
    if out.is_dir():
        raise UserError("a directory stands where a file should", out, "name a file")
    FORMATS[form](load(args.directory), out)
    if args.json:
        print_json({"command": "export", "model": args.directory, "format": form, "out": str(out)})
    else:
        print(f"wrote {out} ({out.stat().st_size:,} bytes)")


def _required(args: argparse.Namespace, name: str, advice: str) -> Any:
    if not getattr(args, name):
        raise UserError(f"--{name} is missing", args.parser.prog, advice)
    return getattr(args, name)
