"""`jaxcf predict`, `info` and `export`: stars for pairs, what a model is, its factors for other programs."""

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from safetensors.numpy import save  # killed, its save_file leaves a temporary file of its own

from jaxcf.cli.queries import add_files, note_number, note_unknown, opened, queried, reading_of, warn_unknown
from jaxcf.contract import PredictsRatings
from jaxcf.data import reading
from jaxcf.data.ratings import RatingScale, Units
from jaxcf.model_files import FILES
from jaxcf.models import get, require
from jaxfit.cli import learning_curve
from jaxfit.cli.command import add_model, note, output, print_json, required
from jaxfit.cli.parser import Parser
from jaxfit.errors import UserError
from jaxfit.recipe import named_arrays
from jaxfit.run_dir import manifest
from jaxfit.run_dir.atomic import replacing
from jaxfit.run_dir.journal import Journal
from jaxfit.run_dir.metadata import read_info, require_types

SUFFIX = ".safetensors"


def add_predict(parser: Parser) -> None:
    """Give the parser of `jaxcf predict` its options."""
    add_model(parser, run_predict)
    parser.add_argument(
        "--pairs", nargs="+", action="extend", metavar="FILE", help="users and items (other columns are not read)"
    )
    add_files(parser, users=True)


def add_info(parser: Parser) -> None:
    """Give the parser of `jaxcf info` its options."""
    add_model(parser, run_info, unfinished=False)
    learning_curve.add(parser)


def add_export(parser: Parser) -> None:
    """Give the parser of `jaxcf export` its options."""
    add_model(parser, run_export)
    parser.add_argument(
        "--out", metavar="FILE",
        help="the .safetensors file; its metadata has mean and unit: pmf predicts mean + unit (U·V + b + c) stars, "
        "bias mean + b + c; wmf ranks by X·Y",
    )  # fmt: skip


def run_predict(args: argparse.Namespace) -> None:
    """Print a line of user, item and stars for each pair, in their order."""
    model, files = opened(args), required(args, "pairs", "name the pairs to predict: --pairs FILE")
    require(model.record, PredictsRatings, "predict", args.directory)
    table = reading.read_pairs(files, reading_of(args))
    note(args, *table.notes)
    warn_unknown(model, files, table, users=not args.known)
    asked = queried(model, args)
    user, item = table.relabelled(asked.ids)
    note_unknown(args, model, item, None if args.known else user)
    if args.known:
        note_number(args, user < 0, "pairs are of users without known ratings: predicted without them")
    stars = model.stars(asked.predictor(False), user, item)
    users, items = table.users[table.pairs.user].tolist(), table.items[table.pairs.item].tolist()
    predicted = zip(users, items, stars.tolist(), strict=True)
    if args.json:
        listed = [{"user": u, "item": i, "stars": s} for u, i, s in predicted]
        print_json({"command": "predict", "model": model.name, "pairs": len(stars), "predicted": listed})
    else:
        sys.stdout.writelines(f"{u}\t{i}\t{s:.4f}\n" for u, i, s in predicted)


def run_info(args: argparse.Namespace) -> None:
    """Print what a model is and how it was trained, or how far its training has come."""
    info = read_info(Path(args.directory))
    record = get(info["model"], args.directory)
    manifest.require_whole(Path(args.directory), FILES, verify=args.verify)
    history = Journal(Path(args.directory)).epochs()
    if args.plot:
        learning_curve.draw(history, f"{record.name} ({Path(args.directory).name})", args.plot, args.directory)
    require_types(info, {"finished": bool, "data": dict, "config": dict}, Path(args.directory))
    sizes = dict.fromkeys(("users", "items", "training ratings"), int)
    require_types(info["data"], {**sizes, "scale": tuple[float, float, float]}, Path(args.directory))
    validation = next(
        (name for name, value in info.items() if name.startswith("validation ") and value is not None), None
    )
    if validation is not None:
        require_types(info, {validation: float, "epochs": int}, Path(args.directory))
    if args.json:
        print_json({"command": "info", "directory": args.directory, **info, "history": history})
        return
    data = info["data"]
    print(f"{record.name}: {record.about} ({record.source})")
    if not info["finished"]:
        print(info.get("diverged") or "its training has not finished: go on with it by --resume")
    kind = "positives" if record.implicit else "ratings"
    print(f"{data['users']:,} users, {data['items']:,} items, {data['training ratings']:,} training {kind}")
    print(f"{'counts' if record.implicit else 'ratings'}: {RatingScale(*data['scale'])}")
    for name in ("config", "recipe"):
        for key, value in (info.get(name) or {}).items():
            print(f"{name} {key}: {value}")
    if validation is not None:
        clipped = " (not clipped)" if validation == "validation RMSE" else ""
        print(f"{validation} {info[validation]:.4f}{clipped}, {info['epochs']} epochs")


def run_export(args: argparse.Namespace) -> None:
    """Write the parameters as safetensors, and the ids of their rows as text files beside them."""
    out = output(args)
    if out.suffix not in ("", SUFFIX):
        do = f"name a {SUFFIX} file: --out {out.with_suffix(SUFFIX)}"
        raise UserError(f"the factors are written as safetensors, not as {out.suffix}", out, do)
    model = opened(args)
    arrays = {name: np.ascontiguousarray(array) for name, array in named_arrays(model.params).items()}
    units = {name: repr(value) for name, value in vars(model.config).items() if name in Units._fields}
    files = {out: save(arrays, {"model": model.name, **units})}
    for name, ids in (("users", model.catalogue.users), ("items", model.catalogue.items)):
        files[out.with_suffix(f".{name}.txt")] = "".join(f"{i}\n" for i in ids.tolist()).encode()
    with ExitStack() as all_written:  # before the first takes its place
        for path, content in files.items():
            all_written.enter_context(replacing(path)).write_bytes(content)
    if args.json:
        shapes = {name: list(array.shape) for name, array in arrays.items()}
        print_json({"command": "export", "model": model.name, "out": str(out), "arrays": shapes})
    else:
        print(f"{out}: {', '.join(f'{name} {array.shape}' for name, array in arrays.items())}")
