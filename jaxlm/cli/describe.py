"""What a model is, and its file for other programs: `jaxlm info | export`."""

import argparse
import dataclasses
from pathlib import Path

from jaxfit.cli import learning_curve, options, streams
from jaxfit.cli.command import output, print_answer, required
from jaxfit.cli.parser import Parser
from jaxfit.errors import UserError
from jaxfit.run_dir import card
from jaxfit.run_dir.journal import Journal
from jaxfit.run_dir.metadata import CONFIG
from jaxfit.wording import quantity
from jaxlm.cli import model_command
from jaxlm.contract import BySGD
from jaxlm.export import FORMATS, HUB, OF_VECTORS, hub
from jaxlm.model_files import load

FORMS = (*FORMATS, HUB)
READABLE = "folder of a model, an ARPA file, or a file of word vectors"


def add_info(parser: Parser) -> None:
    """Give the parser of `jaxlm info` its options."""
    model_command.add(parser, run_info, about=READABLE, unfinished=False)
    learning_curve.add(parser)


def add_export(parser: Parser) -> None:
    """Give the parser of `jaxlm export` its options."""
    model_command.add(parser, run_export, about=READABLE)
    parser.add_argument(
        "--format", type=options.choice("--format", FORMS), metavar="|".join(FORMS),
        help="of the file; hub: a folder that hubs of models accept (huggingface_hub.upload_folder), of safetensors, "
        "JSON, text and a card, from which commands and jaxlm.load read the same model",
    )  # fmt: skip
    parser.add_argument("--out", metavar="FILE", help="where to write it (hub: a new folder)")
    model_command.add_vectors(parser)


def run_info(args: argparse.Namespace) -> None:
    """Print what the model is, its sizes, and how its training went."""
    streams.escape()
    directory = Path(args.directory)
    model = load(directory, unfinished=True, verify=args.verify)  # it says whether it is
    history = Journal(directory).epochs() if (directory / CONFIG).exists() else []
    program = None
    if history:
        assert isinstance(model.record.fitting, BySGD)
        program = model.record.fitting.program(model.config)
    last = program is not None and program.result == "last"
    if args.plot:
        learning_curve.draw(history, f"{model.name} ({directory.name})", args.plot, directory, last)
    if args.json:
        print_answer(args, model.name, {
            **model.info, "words": len(model.vocabulary), "sizes": model.sizes(), "history": history,
        })  # fmt: skip
        return
    print(f"model         {model.name}, {len(model.vocabulary):,} words")
    decided = {f.name for f in dataclasses.fields(model.config) if f.metadata.get("decided")}  # no options
    for title, values in (("settings", model.info.get("config") or {}), ("recipe", card.recipe_of(model.info))):
        if shown := options.listed(values, decided):
            print(f"{title:13} {shown}")
    data = model.info.get("corpus")
    if data:
        print(f"trained on    {data['name']}, {data['training events']:,} events")
    sizes = {name: "x".join(map(str, shape)) or "scalar" for name, shape in model.sizes().items()}
    print("sizes         " + ", ".join(f"{name} {size}" for name, size in sizes.items()))
    if program is not None:
        line = history[-1] if last else min(history, key=lambda line: line["valid"])
        best = "" if last else "best "
        value, epochs = program.metric.show(line["valid"]), quantity(model.info.get("epochs", len(history)), "epoch")
        print(
            f"training      {epochs}, {best}validation {value} after epoch {line['epoch'] + 1}"
            + ("" if model.info.get("finished") else f", {model.info.get('diverged', 'not finished')}")
        )


def run_export(args: argparse.Namespace) -> None:
    """Write the model for other programs."""
    streams.escape()
    form = required(args, "format", f"choose from {', '.join(FORMS)}")
    out = output(args, folder=form == HUB)
    chosen = [] if args.vectors is None else [args.vectors]
    if chosen and form not in OF_VECTORS:
        advice = f"leave it out, or choose {' or '.join(OF_VECTORS)}"
        raise UserError(f"a file of the format {form} is not of word vectors", "--vectors", advice)
    if form == HUB and args.unfinished:
        advice = "leave it out, or go on with the training by --resume"
        raise UserError("a folder for hubs is of a finished model", "--unfinished", advice)
    # `hub` refuses an unfinished one, with advice that fits
    model = load(args.directory, unfinished=args.unfinished or form == HUB, verify=args.verify)
    if form == HUB:
        hub(model, Path(args.directory), out)
    else:
        FORMATS[form](model, out, *chosen)
    if args.json:
        print_answer(args, model.name, {"format": form, "vectors": args.vectors, "out": str(out)})
    else:
        size = sum(path.stat().st_size for path in (out.iterdir() if form == HUB else [out]))
        print(f"wrote {out} ({size:,} bytes)")
