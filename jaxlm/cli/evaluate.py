"""How well a model predicts a text: `jaxlm eval | score`."""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from jaxfit.cli import options
from jaxfit.cli.command import note, print_answer, required
from jaxfit.cli.help import Rare
from jaxfit.cli.parser import Parser
from jaxfit.errors import UserError
from jaxfit.files.opening import require_read_once
from jaxfit.recipe import SEED
from jaxlm.capabilities import HasNGrams, PredictsWords
from jaxlm.cli import model_command
from jaxlm.data.encoding import Encoded, encode, encode_pieces
from jaxlm.data.files import tokens
from jaxlm.data.vocabulary import UNK
from jaxlm.model_files import load
from jaxlm.tasks import mixture
from jaxlm.tasks.evaluate import LN10, evaluate, line_log_probs, show_normalizers, spread_of_normalizers
from jaxlm.trained_model import Model


def add_eval(parser: Parser) -> None:
    """Give the parser of `jaxlm eval` its options."""
    model_command.add(parser, run_eval)
    options.files(parser, "--text", "text to evaluate on (- is standard input)")
    parser.add_argument(
        "--mix", metavar="DIR2", action="append",
        help="a second model over the same vocabulary, to be mixed in (again for each further model)",
    )  # fmt: skip
    weight = parser.add_mutually_exclusive_group()
    weight.add_argument(
        "--weight", type=options.number("--weight", float, high=1), metavar="A",
        help="share of DIR in the mixture of two models (0 to 1; default: 0.5, or equal shares of more)",
    )  # fmt: skip
    options.files(weight, "--fit-weight-on", "validation text to choose the shares by")
    model_command.add_encoding(parser)
    _add_orderings(parser)


def _add_orderings(parser: Parser) -> None:
    """Add the options of evaluation that models of documents have."""
    group = parser.add_argument_group("models of documents")
    group.add_argument(
        "--orderings", type=options.number("--orderings"), metavar="M",
        help="orders of each document's words, or estimates, over which its probability is averaged (default: 1)",
    )  # fmt: skip
    group.add_argument(
        "--seed", type=options.number("--seed", **SEED), metavar="N", help=Rare("of what is drawn: orders, estimates")
    )


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
    require_read_once([*files, *(args.fit_weight_on or ())])
    if not args.mix and (args.weight is not None or args.fit_weight_on):
        raise UserError("there is no second model to mix", "--weight, --fit-weight-on", "name it: --mix DIR2")
    if args.weight is not None and len(args.mix) > 1:
        what = f"it is for two models, and there are {1 + len(args.mix)}"
        raise UserError(what, "--weight", "give --fit-weight-on FILE, or leave it out for equal shares")
    model = model_command.model_of(args)
    if model.record.reads == "documents":
        from jaxlm.cli import documents  # here, as texts do without what it imports

        documents.run_eval(args, model)
        return
    model.require(PredictsWords, "eval", args.directory)
    if args.orderings is not None or args.seed is not None:
        raise UserError("they are for models of documents", "--orderings, --seed", "leave them out")
    texts = [files] + ([args.fit_weight_on] if args.fit_weight_on else [])
    for file in model_command.shared(files, args.fit_weight_on or ()):
        note(args, f"the shares are fitted to {file}, too: the mixture's score says nothing about other text")
    reading = model_command.reading(args, model)
    encoded = [encode(files, model.vocabulary, reading) for files in texts]
    log_probs = [model.event_log_probs(text.ids) for text in encoded]
    result: dict[str, Any] = {"text": files}
    mixed = _mix(args, model, encoded, log_probs) if args.mix else None
    if mixed is not None:
        log_probs[0] = mixed.log_probs
        named = {"mix": args.mix[0], "weight": mixed.weights[0]} if len(args.mix) == 1 else {
            "mix": args.mix, "weights": mixed.weights
        }  # fmt: skip
        result |= named | {"perplexities": mixed.singles}
    evaluation = evaluate(log_probs[0], encoded[0].unknown, encoded[0].ids != model.vocabulary.unk)
    normalizers = {args.directory: spread_of_normalizers(model, encoded[0].ids)}
    if mixed is None:
        evaluation = replace(evaluation, log_normalizer=normalizers[args.directory])
    else:
        normalizers |= mixed.normalizers
        result["log_normalizers"] = {name: found for name, found in normalizers.items() if found}
    assert evaluation.known is not None
    result |= evaluation.record()
    if args.json:
        print_answer(args, model.name, result)
        return
    print(f"perplexity       {evaluation.perplexity:.2f}")
    print(f"  without <unk>  {evaluation.known.perplexity:.2f} (of {evaluation.known.events:,} events)")
    if mixed is not None:
        shares = _listed([f"{w:.4f} of {name}" for w, name in zip(mixed.weights, mixed.names, strict=True)])
        print(f"  mixture        {shares} ({'fitted' if args.fit_weight_on else 'given'})")
        print(f"  each alone     {_listed([f'{perplexity:.2f}' for perplexity in mixed.singles])}")
    print(f"events           {evaluation.events:,} (words and line ends)")
    share = evaluation.unknown / max(evaluation.events, 1)
    print(f"unknown words    {evaluation.unknown:,} ({100 * share:.1f} %)")
    print(f"log-probability  {evaluation.log_prob:,.1f} nats")
    for name, found in normalizers.items():
        if found is not None:
            print(f"log Z            {show_normalizers(found)}" + (f", of {name}" if mixed else ""))


class Mixed(NamedTuple):
    """A mixture: its models' folders and weights, the text's log-probabilities, and each model's own perplexity.

    normalizers: of the models but the first, by folder: what `spread_of_normalizers` says of the text.
    """

    names: list[str]
    weights: list[float]
    log_probs: np.ndarray
    singles: list[float]
    normalizers: dict[str, tuple[float, float] | None]


def _mix(args: argparse.Namespace, model: Model, encoded: list[Encoded], log_probs: list[np.ndarray]) -> Mixed:
    """Mix the model's log-probabilities of the text with those of others; weights are fitted on a second text."""
    of_models, normalizers = [log_probs], {}
    for name in args.mix:
        other = load(name, unfinished=args.unfinished, verify=args.verify)
        other.require(PredictsWords, "eval", name)
        texts = [_exchange(text.ids, model, other, args, name) for text in encoded]
        of_models.append([other.event_log_probs(ids) for ids in texts])
        normalizers[name] = spread_of_normalizers(other, texts[0])
    of_texts = [np.stack(each) for each in zip(*of_models, strict=True)]
    names = [args.directory, *args.mix]
    if len(names) == 2:
        weight = 0.5 if args.weight is None else args.weight
        weight = mixture.fit_weight(of_texts[1][0], of_texts[1][1]) if args.fit_weight_on else weight
        weights, combined = [weight, 1 - weight], mixture.mix(of_texts[0][0], of_texts[0][1], weight)
    else:
        equal = np.full(len(names), 1 / len(names))
        weights = (mixture.fit_weights(of_texts[1]) if args.fit_weight_on else equal).tolist()
        combined = mixture.mix_all(of_texts[0], weights)
    return Mixed(names, weights, combined, [evaluate(each).perplexity for each in of_texts[0]], normalizers)


def _listed(parts: list[str]) -> str:
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


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
        result = {"lines": len(scores), "log10": scores.tolist()}
        print_answer(args, model.name, result | ({"words": rows} if args.words else {}))
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


def _exchange(ids: np.ndarray, model: Model, second: Model, args: argparse.Namespace, name: str) -> np.ndarray:
    """Return ids of the same words in the second model's order; the two must know the same words."""
    if model.vocabulary.words == second.vocabulary.words:
        return ids
    if set(model.vocabulary.words) != set(second.vocabulary.words):
        here, there = set(model.vocabulary.words), set(second.vocabulary.words)
        odd = UNK if UNK in here ^ there else min(here ^ there)
        owner = args.directory if odd in here else name
        raise UserError(
            f"different vocabularies, of {len(here):,} and {len(there):,} words: {odd!r} is only in {owner}",
            f"{args.directory}, {name}",
            model.vocabulary.advice_to_agree(
                there, "train both on the same text, or one with --vocab and the other's vocabulary.txt"
            ),
        )
    return np.array([second.vocabulary.ids[word] for word in model.vocabulary.words], np.int32)[ids]
