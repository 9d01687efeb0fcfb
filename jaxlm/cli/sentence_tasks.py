"""Tasks that probabilities of sentences are judged by: `jaxlm complete | rescore`."""

import argparse
import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jaxfit.cli import options
from jaxfit.cli.command import note, print_answer
from jaxfit.cli.parser import Parser
from jaxfit.errors import UserError
from jaxfit.files.opening import require_read_once
from jaxfit.wording import quantity
from jaxlm.capabilities import FillsGaps, PredictsWords
from jaxlm.cli import model_command
from jaxlm.data.files import Reading
from jaxlm.data.vocabulary import UNK
from jaxlm.model_files import load
from jaxlm.tasks import completion, intervals, rescoring
from jaxlm.tasks.evaluate import LN10
from jaxlm.tasks.rescoring import Features, Outcome
from jaxlm.trained_model import Model

LEAST = -1e6  # log10 of no probability: finite, so that its weight may be zero
# option -> the weight of `Features` that it sets, its default, its least value, and what it weighs
WEIGHTS = {
    "acoustic-scale": ("acoustic", 1.0, 0.0, "acoustic scores"),
    "lm-weight": ("model", 8.0, 0.0, "log10 P under the model"),
    "word-penalty": ("words", 0.0, -math.inf, "the number of words; below 0, fewer are preferred"),
    "recogniser-weight": ("recogniser", 0.0, 0.0, "the recogniser's own language model score"),
}


def add_complete(parser: Parser) -> None:
    """Give the parser of `jaxlm complete` its options."""
    model_command.add(parser, run_complete)
    parser.add_argument("questions", metavar="QUESTIONS", help="CSV: id, sentence with a gap _____, choices")
    parser.add_argument("--answers", metavar="FILE", help="CSV: id, letter of the right choice")
    parser.add_argument("--mix", metavar="DIR2", help="a second model, whose log-probabilities or scores are added")
    weight = parser.add_mutually_exclusive_group()
    weight.add_argument(
        "--weight", type=options.number("--weight", float, high=1), metavar="A",
        help="weight of DIR; DIR2 has 1 - A (0 to 1; default: 0.5)",
    )  # fmt: skip
    weight.add_argument(
        "--fit-weight", action="store_true",
        help="answer each half of the questions with the weight that is best on the other half",
    )  # fmt: skip
    model_command.add_reading(parser)


def add_rescore(parser: Parser) -> None:
    """Give the parser of `jaxlm rescore` its options."""
    model_command.add(parser, run_rescore)
    columns = ", ".join(rescoring.COLUMNS)
    parser.add_argument("nbest", metavar="NBEST", help=f"table of hypotheses, with columns {columns}")
    parser.add_argument(
        "--references", metavar="FILE",
        help="an utterance and its words in each line, to count errors, of words as they are written",
    )  # fmt: skip
    parser.add_argument(
        "--noise", metavar="FILE",
        help="words such as [laugh], which the model does not score and which are no errors; they stay in nwords",
    )  # fmt: skip
    for name, (_, default, low, what) in WEIGHTS.items():
        parser.add_argument(
            f"--{name}", type=options.number(f"--{name}", float, low=low), metavar="X",
            help=f"weight of {what} (default: {default:g})",
        )  # fmt: skip
    parser.add_argument(
        "--fit-weights", action="store_true",
        help="choose from each list with the weights that have the fewest errors on all others, of 0 to 3 times the "
        "given ones of model and recogniser, and for words up to the larger of these, added or subtracted, in place of "
        "--word-penalty",
    )  # fmt: skip
    model_command.add_reading(parser)


def run_complete(args: argparse.Namespace) -> None:
    """Print the choice for each question, and how many are right."""
    if not args.mix and (args.weight is not None or args.fit_weight):
        raise UserError("there is no second model to mix", "--weight, --fit-weight", "name it: --mix DIR2")
    if args.fit_weight and not args.answers:
        raise UserError("the weight is to be fitted without answers", "--fit-weight", "name them: --answers FILE")
    require_read_once([args.questions, args.answers])
    directories = [args.directory, *filter(None, [args.mix])]
    models = [load(directory, unfinished=args.unfinished, verify=args.verify) for directory in directories]
    for directory, model in zip(directories, models, strict=True):
        model.require((PredictsWords, FillsGaps), "complete", directory)
    encoding = model_command.reading(args, models[0]).encoding
    questions = completion.read(args.questions, encoding)
    answers = completion.read_answers(args.answers, questions, encoding) if args.answers else None
    scores = [_choice_scores(args, model, questions) for model in models]
    weights: tuple[float, ...] = ()
    if not args.mix:
        choices = completion.choose(scores[0])
    elif args.fit_weight:
        assert answers is not None
        choices, weights = completion.cross_fitted(scores[0], scores[1], answers)
    else:
        weights = (0.5 if args.weight is None else args.weight,)
        choices = completion.choose(completion.mix(scores[0], scores[1], weights[0]))
    unknown = [_unknown(args, model, questions) for model in models]
    result: dict[str, Any] = {
        "questions": args.questions,
        "choices": {q.name: completion.LETTERS[i] for q, i in zip(questions, choices, strict=True)},
        "unknown": [len(found) for found in unknown],
    }  # fmt: skip
    if args.mix:
        result |= {"mix": args.mix, "weights": weights}
    if answers is not None:
        result |= _accuracy(choices, answers)
        if args.mix:
            result["alone"] = [_accuracy(completion.choose(one), answers)["accuracy"] for one in scores]
    for directory, model, found in zip(directories, models, unknown, strict=True):
        if found:
            fills, left_out = model.record.capability(FillsGaps), model.vocabulary.left_out
            known = (left_out and left_out.words) or (fills and not fills.of_word)
            whole = "" if known else ", with all of its probability: what it stands for is not known"
            parts = Reading(punctuation=True).prepare(" ".join(word for words in found for word in words)).split()
            marks = "; --punctuation separates marks from words" * any(part in model.vocabulary.ids for part in parts)
            many = f"{len(found):,} of {scores[0].size:,}"
            note(args, f"{many} choices have a word that {directory} reads as {UNK}{whole}{marks}")
    if args.json:
        print_answer(args, models[0].name, result)
        return
    for name, letter in result["choices"].items():
        print(f"{name},{letter}")
    if answers is not None:
        print(f"accuracy  {_percent(result['accuracy'], result['interval'])}, {result['right']:,} right")
    if answers is not None and args.mix:
        for directory, alone in zip(directories, result["alone"], strict=True):
            print(f"  alone   {100 * alone:.1f} % ({directory})")
        shown = " and ".join(f"{weight:.2f}" for weight in weights)
        print(f"weight    {shown} of {args.directory}" + (" (of every second question)" if args.fit_weight else ""))


def _choice_scores(args: argparse.Namespace, model: Model, questions: list[completion.Question]) -> NDArray[np.float64]:
    """Return log10 P of each question's sentences, or how well choices fit as `completion.gap_scores`: [Q, choices].

    A sentence's last period is a word where the model has it.
    """
    apart = "." in model.vocabulary.ids
    if model.record.capability(FillsGaps):
        return completion.gap_scores(model, questions, model_command.reading(args, model).prepare, apart)
    filled = ((sentence, q.where) for q in questions for sentence in q.sentences(apart))
    return _log10(args, model, filled).reshape(len(questions), -1)


def _unknown(args: argparse.Namespace, model: Model, questions: list[completion.Question]) -> list[list[str]]:
    """Return, of each choice that has some, the words outside the model's vocabulary.

    Where sentences are scored, a choice's words are those that it adds to its sentence, with marks that touch the gap.
    """
    prepare, known = model_command.reading(args, model).prepare, model.vocabulary.ids
    alone, apart = model.record.capability(FillsGaps), "." in known
    unknown = []
    for question in questions:
        around = [] if alone else prepare(" ".join(question.around(apart))).split()
        for text in question.choices if alone else question.sentences(apart):
            words = Counter(prepare(text).split()) - Counter(around)
            unknown.append([word for word in words if word not in known])
    return list(filter(None, unknown))


def _accuracy(choices: NDArray[np.int64], answers: NDArray[np.int64]) -> dict[str, Any]:
    right = int(np.count_nonzero(choices == answers))
    interval = intervals.of_share(right, len(answers))
    return {"right": right, "asked": len(answers), "accuracy": right / len(answers), "interval": interval}


def _percent(share: float, interval: intervals.Interval) -> str:
    if math.isnan(share):
        return "undefined"
    low, high = interval
    return f"{100 * share:.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def _weights(args: argparse.Namespace) -> Features:
    """Return the weights that are given, or their defaults; raises UserError where they do not fit --fit-weights."""
    given = {name: getattr(args, name.replace("-", "_")) for name in WEIGHTS}
    if args.fit_weights and given["word-penalty"] is not None:
        raise UserError("--fit-weights fits it", "--word-penalty", "leave out one of them")
    weights = Features(**{
        field: default if given[name] is None else given[name] for name, (field, default, *_) in WEIGHTS.items()
    })  # fmt: skip
    if args.fit_weights and weights.model == weights.recogniser == 0:
        what, where = "all multiples of these weights are 0", "--lm-weight, --recogniser-weight"
        raise UserError(what, where, "give one above 0, or leave out --fit-weights")
    return weights


def run_rescore(args: argparse.Namespace) -> None:
    """Print the chosen hypothesis of each utterance, and the word errors."""
    if args.fit_weights and not args.references:
        raise UserError("weights are to be fitted without references", "--fit-weights", "name them: --references FILE")
    weights = _weights(args)
    require_read_once([args.nbest, args.references, args.noise])
    model = model_command.model_of(args, PredictsWords)
    encoding = model_command.reading(args, model).encoding
    lists = rescoring.read(args.nbest, encoding)
    noise = rescoring.read_noise(args.noise, encoding) if args.noise else set()
    references = rescoring.read_references(args.references, lists, encoding) if args.references else None
    words = [[rescoring.without(h.text.split(), noise) for h in hypotheses] for hypotheses in lists.values()]
    flat = zip((w for one in words for w in one), (h.where for one in lists.values() for h in one), strict=True)
    log10 = _log10(args, model, ((" ".join(w), where) for w, where in flat))
    ends = np.cumsum([len(one) for one in words])[:-1]
    tables = [
        rescoring.features(one, scores) for one, scores in zip(lists.values(), np.split(log10, ends), strict=True)
    ]
    chosen = np.array([rescoring.choose(table, [weights])[0] for table in tables])
    errors: list[NDArray[np.int64]] = []
    said: list[list[str]] = []
    if references is not None:
        said = [rescoring.without(references[utterance], noise) for utterance in lists]
        errors = [rescoring.word_errors(one, truth) for one, truth in zip(words, said, strict=True)]
    if args.fit_weights:
        chosen, fitted = rescoring.leave_one_out(tables, errors, rescoring.grid(weights))
        weights = Features(*fitted.tolist())
    result: dict[str, Any] = {
        "nbest": args.nbest, "weights": weights._asdict(),
        "fitted": args.fit_weights,
        "hypotheses": {name: one[i].text for (name, one), i in zip(lists.items(), chosen, strict=True)},
    }  # fmt: skip
    if references is not None:
        lengths = [len(truth) for truth in said]
        outcomes = {
            "rescored": rescoring.outcome(errors, lengths, chosen),
            "first": rescoring.outcome(errors, lengths, map(rescoring.first, lists.values())),
            "oracle": rescoring.outcome(errors, lengths, (int(wrong.argmin()) for wrong in errors)),
        }
        result |= {"words": sum(lengths), **{name: _record(outcome) for name, outcome in outcomes.items()}}
        result["difference"] = outcomes["rescored"].difference(outcomes["first"])
    if args.json:
        print_answer(args, model.name, result)
    else:
        _print_rescore(result)


def _record(outcome: Outcome) -> dict[str, Any]:
    return {"errors": int(outcome.errors.sum()), "rate": outcome.rate(), "interval": outcome.interval()}


def _print_rescore(result: dict[str, Any]) -> None:
    for name, text in result["hypotheses"].items():
        print(f"{name}\t{text}")
    if "words" not in result:
        return
    for name in ("rescored", "first", "oracle"):
        found = result[name]
        print(f"{name:10}  {_percent(found['rate'], found['interval'])}, {quantity(found['errors'], 'error')}")
    low, high = (100 * end for end in result["difference"])
    shown = "undefined," if math.isnan(low) else f"{low:+.1f} to {high:+.1f} %"
    print(f"difference  {shown} of {result['words']:,} words, of rescored and first")
    shown = ", ".join(f"{name} {weight:g}" for name, weight in result["weights"].items())
    how = " (fitted to all lists; each was rescored with those fitted to the others)" if result["fitted"] else ""
    print(f"weights     {shown}{how}")


def _log10(args: argparse.Namespace, model: Model, sentences: Iterable[tuple[str, str]]) -> NDArray[np.float64]:
    """Return log10 P of sentences and their ends, the history beginning afresh; equal sentences are scored once.

    An unknown word has its share of `<unk>`, as sentences are compared (`Vocabulary.log_share_of_unknown`).

    Args:
        sentences: text, and its file and line.
    """
    prepare, known = model_command.reading(args, model).prepare, model.vocabulary.ids
    place: dict[str, int] = {}
    index, unknown = [], []
    for text, where in sentences:
        prepared = " ".join(prepare(text).split())
        if prepared not in place:
            words = prepared.split()
            model.encode_line(words, where=where)  # for its errors, of which the place is known here
            unknown.append(sum(word not in known for word in words))
        index.append(place.setdefault(prepared, len(place)))
    share = model.vocabulary.log_share_of_unknown / LN10
    return np.maximum(model.scores(list(place)) + share * np.array(unknown), LEAST)[index]
