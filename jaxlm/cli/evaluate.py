"""How well a model predicts a text: `jaxlm eval | score`."""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from jaxfit.cli import options
from jaxfit.cli.command import print_json, required
from jaxfit.cli.parser import Parser
from jaxfit.errors import UserError
from jaxlm.cli import model_command
from jaxlm.contract import HasNGrams, PredictsWords
from jaxlm.data.encoding import encode, encode_pieces
from jaxlm.data.files import tokens
from jaxlm.tasks import mixture
from jaxlm.tasks.evaluate import LN10, evaluate, line_log_probs, show_normalizers, spread_of_normalizers
from jaxlm.trained_model import Model, load


def add_eval(parser: Parser) -> None:
    """Give the parser of `jaxlm eval` its options."""
    model_command.add(parser, run_eval)
    parser.add_argument(
        "--text", nargs="+", action="extend", metavar="FILE", help="text to evaluate on (- is standard input)"
    )
    parser.add_argument("--mix", metavar="DIR2", help="a second model over the same vocabulary, to be mixed in")
    weight = parser.add_mutually_exclusive_group()
    weight.add_argument(
        "--weight", type=options.number("--weight", float, high=1), metavar="A",
        help="share of DIR in the mixture (0 to 1; default: 0.5)",
    )  # fmt: skip
    weight.add_argument(
        "--fit-weight-on", nargs="+", action="extend", metavar="FILE", help="validation text to choose the share by"
    )
    model_command.add_encoding(parser)


def add_score(parser: Parser) -> None:
    """Give the parser of `jaxlm score` its options."""
    model_command.add(parser, run_score)
    parser.add_argument("file", nargs="?", default="-", metavar="FILE", help="sentences (default: standard input)")
    parser.add_argument(
        "--words", action="store_true",
        help="print each word, its log10 probability and, for n-grams, the order of the n-gram used",
    )  # fmt: skip
    model_command.add_encoding(parser)


def run_eval(args: argparse.Namespace) -> None:
    """Print perplexity, events, unknown words, log-probability."""
    files = required(args, "text", "name a text: --text FILE")
    if not args.mix and (args.weight is not None or args.fit_weight_on):
        raise UserError("there is no second model to mix", "--weight, --fit-weight-on", "name it: --mix DIR2")
    model = model_command.model_of(args, PredictsWords)
    texts = [files] + ([args.fit_weight_on] if args.fit_weight_on else [])
    reading = model_command.reading(args, model)
    encoded = [encode(files, model.vocabulary, reading) for files in texts]
    log_probs = [model.event_log_probs(text.ids) for text in encoded]
    result: dict[str, Any] = {"command": "eval", "model": args.directory, "text": files}
    if args.mix:
        second = load(args.mix, unfinished=args.unfinished, verify=args.verify)
        second.require(PredictsWords, "eval", args.mix)
        others = [second.event_log_probs(_exchange(text.ids, model, second, args)) for text in encoded]
        weight = 0.5 if args.weight is None else args.weight
        if args.fit_weight_on:
            weight = mixture.fit_weight(log_probs[1], others[1])
        singles = [evaluate(values[0]).perplexity for values in (log_probs, others)]
        log_probs = [mixture.mix(log_probs[0], others[0], weight)]
        result |= {"mix": args.mix, "weight": weight, "perplexities": singles}
    evaluation = evaluate(log_probs[0], encoded[0].unknown, encoded[0].ids != model.vocabulary.unk)
    evaluation = replace(evaluation, log_normalizer=spread_of_normalizers(model, encoded[0].ids))
    assert evaluation.known is not None
    result |= evaluation.record()
    if args.json:
        print_json(result)
        return
    print(f"perplexity       {evaluation.perplexity:.2f}")
    print(f"  without <unk>  {evaluation.known.perplexity:.2f} (of {evaluation.known.events:,} events)")
    if args.mix:
        (first, second_alone), how = singles, "fitted" if args.fit_weight_on else "given"
        print(f"  mixture        {weight:.4f} of {args.directory} and {1 - weight:.4f} of {args.mix} ({how})")
        print(f"  each alone     {first:.2f} and {second_alone:.2f}")
    print(f"events           {evaluation.events:,} (words and line ends)")
    share = evaluation.unknown / max(evaluation.events, 1)
    print(f"unknown words    {evaluation.unknown:,} ({100 * share:.1f} %)")
    print(f"log-probability  {evaluation.log_prob:,.1f} nats")
    if evaluation.log_normalizer is not None:
        print(f"log Z            {show_normalizers(evaluation.log_normalizer)}")


def run_score(args: argparse.Namespace) -> None:
    """Print one log10 probability a line, or a word and its log10 probability a line."""
    model = model_command.model_of(args, PredictsWords)
    words: list[bytes] = []
    seen: dict[bytes, None] = {}

    def pieces() -> Iterator[tuple[list[bytes], str, int]]:
        for piece, file, lines in tokens([args.file], model_command.reading(args, model)):
            seen.update(dict.fromkeys(piece))
            words.extend(piece if args.words else ())
            yield piece, file, lines

    ids = encode_pieces(pieces(), model.vocabulary).ids
    model_command.note_unknown(args, model, (word.decode() for word in seen))
    log_probs = model.event_log_probs(ids, fresh_lines=True) / LN10
    scores = line_log_probs(log_probs, ids, model.vocabulary.eos)
    rows = _rows(model, words, ids, log_probs) if args.words else []
    if args.json:
        result = {"command": "score", "model": args.directory, "lines": len(scores), "log10": scores.tolist()}
        print_json(result | ({"words": rows} if args.words else {}))
    elif args.words:
        for row in rows:
            order = f"\t{row['order']}" if "order" in row else ""
            print(f"{row['word']}\t{row['log10']:.6f}{order}" + ("\tunknown" if row["unknown"] else ""))
    else:
        sys.stdout.writelines(f"{score:.6f}\n" for score in scores)


def _rows(model: Model, words: list[bytes], ids: np.ndarray, log_probs: np.ndarray) -> list[dict[str, Any]]:
    """Return what is known of each word and line end: its log10 probability, for n-grams the order used."""
    known = model.vocabulary.ids
    rows = [
        {"word": word.decode(), "log10": float(p), "unknown": word.decode() not in known}
        for word, p in zip(words, log_probs, strict=True)
    ]
    if model.record.capability(HasNGrams):
        for row, order in zip(rows, model.params.score_events(ids)[1], strict=True):
            row["order"] = int(order)
    return rows


def _exchange(ids: np.ndarray, model: Model, second: Model, args: argparse.Namespace) -> np.ndarray:
    """Return ids of the same words in the second model's order; the two must know the same words."""
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
