"""`jaxcf predict`, `info` and `export`: stars for pairs, what a model is, its factors for other programs."""

import argparse
import sys
from pathlib import Path

from jaxcf import export
from jaxcf.cli.queries import add_files, note_number, note_unknown, opened, queried, reading_of, warn_unknown
from jaxcf.contract import FROM_DATA, HasFactors, PredictsRatings
from jaxcf.data import reading
from jaxcf.data.ratings import RatingScale
from jaxcf.model_files import FILES, load
from jaxcf.models import get, names, require
from jaxfit.cli import learning_curve, options, streams
from jaxfit.cli.command import add_model, note, output, print_answer, required
from jaxfit.cli.parser import Parser
from jaxfit.errors import UserError
from jaxfit.run_dir import card, manifest
from jaxfit.run_dir.journal import Journal
from jaxfit.run_dir.metadata import read_config, read_info, require_types
from jaxfit.wording import quantity

FORMS = (*export.FORMATS, "hub")


def add_predict(parser: Parser) -> None:
    """Give the parser of `jaxcf predict` its options."""
    add_model(parser, run_predict)
    options.files(parser, "--pairs", "users and items (other columns are not read)")
    add_files(parser, users=True)


def add_info(parser: Parser) -> None:
    """Give the parser of `jaxcf info` its options."""
    add_model(parser, run_info, unfinished=False)
    learning_curve.add(parser)


def add_export(parser: Parser) -> None:
    """Give the parser of `jaxcf export` its options."""
    add_model(parser, run_export)
    parser.add_argument(
        "--format", type=options.choice("--format", FORMS), default=FORMS[0], metavar="|".join(FORMS),
        help=f"safetensors: the parameters, with mean and unit as metadata, of which predictions, or scores, are: "
        f"{formulas()}. For RBMs the metadata are num_values, low, step and center; predictions are low + "
        "step Σ_k k P(k), for k = 0, …, num_values - 1, where P(k) is Eq. 5.11 of the thesis with p - center in place "
        "of p. numpy: a folder with users.npy and items.npy, float32, whose inner products are predictions or scores, "
        "biases included, for programs that search by them (faiss). hub: a folder that hubs of models accept "
        "(huggingface_hub.upload_folder), with a card, from which commands and jaxcf.load read the same model "
        f"(default: {FORMS[0]})",
    )  # fmt: skip
    parser.add_argument(
        "--out", metavar="FILE", help="the .safetensors file, beside which ids go as text, or the new folder"
    )


def formulas() -> str:
    """Say what the predictions, or scores, of the models with factors are of their parameters."""
    models: dict[str, list[str]] = {}
    for name in names():
        factors = get(name).capability(HasFactors)
        if factors is not None:
            models.setdefault(factors.formula, []).append(name)
    return "; ".join(f"{formula} ({', '.join(kinds)})" for formula, kinds in models.items())


def run_predict(args: argparse.Namespace) -> None:
    """Print a line of user, item and stars for each pair, in their order."""
    model, files = opened(args), required(args, "pairs", "name the pairs to predict: --pairs FILE")
    require(model.record, PredictsRatings, "predict", args.directory)
    if reading_of(args).scale:
        raise UserError(f"the ratings of training are {model.catalogue.scale}", "--scale", "leave it out")
    table = reading.read_pairs(files, reading_of(args))
    note(args, *table.notes)
    warn_unknown(model, files, table, users=not args.known)
    asked = queried(model, args)
    user, item = table.relabelled(asked.ids)
    note_unknown(args, model, item, None if args.known else user)
    if args.known:
        note_number(args, user < 0, "pair", "of users without known ratings: predicted without them")
    stars = model.stars(asked.predictor(False), user, item)
    users, items = table.users[table.pairs.user].tolist(), table.items[table.pairs.item].tolist()
    predicted = zip(users, items, stars.tolist(), strict=True)
    if args.json:
        listed = [{"user": u, "item": i, "stars": s} for u, i, s in predicted]
        print_answer(args, model.name, {"pairs": len(stars), "predicted": listed})
    else:
        sys.stdout.writelines(f"{u}\t{i}\t{s:.4f}\n" for u, i, s in predicted)


def run_info(args: argparse.Namespace) -> None:
    """Print what a model is and how it was trained, or how far its training has come."""
    streams.escape()
    info = read_info(Path(args.directory))
    record = get(info["model"], args.directory)
    manifest.require_whole(Path(args.directory), FILES, verify=args.verify)
    history = Journal(Path(args.directory)).epochs()
    if args.plot:
        learning_curve.draw(history, f"{record.name} ({Path(args.directory).name})", args.plot, args.directory)
    require_types(info, {"finished": bool, "data": dict, "config": dict}, Path(args.directory))
    read_config(record.config, info, Path(args.directory))  # it raises where a setting is not one
    sizes = dict.fromkeys(("users", "items", "training ratings"), int)
    require_types(info["data"], {**sizes, "scale": tuple[float, float, float]}, Path(args.directory))
    validation = next(
        (name for name, value in info.items() if name.startswith("validation ") and value is not None), None
    )
    if validation is not None:
        require_types(info, {validation: float, "epochs": int}, Path(args.directory))
    if args.json:
        print_answer(args, record.name, {**info, "history": history})
        return
    data, kinds = info["data"], ("positive", "counts") if record.implicit else ("rating", "stars")
    print(f"model         {record.name}, {quantity(data['users'], 'user')}, {quantity(data['items'], 'item')}")
    for title, values in (("settings", info["config"]), ("recipe", card.recipe_of(info))):
        if shown := options.listed(values, FROM_DATA):
            print(f"{title:13} {shown}")
    print(f"trained on    {quantity(data['training ratings'], kinds[0])}; {kinds[1]}: {RatingScale(*data['scale'])}")
    parts = []
    if validation is not None:
        clipped = " (not clipped)" if validation == "validation RMSE" else ""
        parts = [quantity(info["epochs"], "epoch"), f"{validation} {info[validation]:.4f}{clipped}"]
    if not info["finished"]:
        parts.append(info.get("diverged") or "not finished: go on with it by --resume")
    if parts:
        print(f"training      {', '.join(parts)}")


def run_export(args: argparse.Namespace) -> None:
    """Write the model for other programs."""
    streams.escape()
    out, for_hub = output(args, folder=args.format != "safetensors"), args.format == "hub"
    if for_hub and args.unfinished:
        advice = "leave it out, or go on with the training by --resume"
        raise UserError("a folder for hubs is of a finished model", "--unfinished", advice)
    # `export.hub` refuses an unfinished one, with advice that fits
    model = load(args.directory, unfinished=args.unfinished or for_hub, verify=args.verify)
    if for_hub:
        export.hub(model, Path(args.directory), out)
        note(args, "the folder has the ids of users and items, and who rated or took what")
    else:
        arrays = export.FORMATS[args.format](model, out)
    if args.json:
        shapes = {} if for_hub else {"arrays": {name: list(x.shape) for name, x in arrays.items()}}
        print_answer(args, model.name, {"format": args.format, "out": str(out), **shapes})
    elif for_hub:
        print(f"wrote {out} ({sum(path.stat().st_size for path in out.iterdir()):,} bytes)")
    else:
        print(f"{out}: {', '.join(f'{name} {array.shape}' for name, array in arrays.items())}")
