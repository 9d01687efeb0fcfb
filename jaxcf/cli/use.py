"""`jaxcf predict`, `info` and `export`: stars for pairs, what a model is, its factors for other programs."""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from jaxcf.cli.queries import add_known, asked, command, opened, required, say, say_unknown
from jaxcf.data import reading
from jaxcf.data.reading import Reading
from jaxcf.recommender import load
from jaxfit.cli import options
from jaxfit.cli.command import print_json
from jaxfit.run_dir.atomic import replacing


def add(commands: Any) -> None:
    """Add the commands to those of `jaxcf`."""
    parser = command(
        commands, "predict", "stars for pairs of user and item, one a line", run_predict, reads=True
    )
    parser.add_argument(
        "--pairs", nargs="+", metavar="FILE", help="users and items (other columns are not read)"
    )
    add_known(parser)
    command(commands, "info", "what a model is and how it was trained", run_info)
    parser = command(commands, "export", "factors as safetensors, with the ids beside them", run_export)
    parser.add_argument("--out", metavar="FILE", help="the .safetensors file")


def run_predict(args: argparse.Namespace) -> None:
    """Print a line of user, item and stars for each pair, in their order."""
    model, how = opened(args), Reading(**options.given(args, Reading))
    table = reading.read_pairs(required(args, "pairs", "name the pairs to predict: --pairs FILE"), how)
    whom = asked(model, args, how)
    user = whom.users.user_index(table.users)[table.pairs.user]
    item = model.catalogue.item_index(table.items)[table.pairs.item]
    say_unknown(model, item, None if args.known else user)
    if args.known and (user < 0).any():
        say(f"{int((user < 0).sum()):,} pairs are of users without known ratings: predicted without them")
    stars = model.stars(whom.expected(False), user, item)
    ids = zip(
        table.users[table.pairs.user].tolist(), table.items[table.pairs.item].tolist(), stars, strict=True
    )
    sys.stdout.writelines(f"{u}\t{i}\t{s:.4f}\n" for u, i, s in ids)
    if args.json:
        print_json({"command": "predict", "model": model.kind, "pairs": len(stars)})


def run_info(args: argparse.Namespace) -> None:
    """Print what a model is and how it was trained."""
    model = load(args.directory)
    if args.json:
        print_json({"command": "info", **model.info})
        return
    data = model.info["data"]
    print(f"{model.kind}: {model.described.about}")
    print(f"{data['users']:,} users, {data['items']:,} items, {data['training ratings']:,} training ratings")
    print(f"ratings: {model.catalogue.scale}")
    for name in ("config", "recipe"):
        for key, value in (model.info.get(name) or {}).items():
            print(f"{name} {key}: {value}")
    if model.info.get("validation RMSE") is not None:
        print(
            f"validation RMSE {model.info['validation RMSE']:.4f} (not clipped), {model.info['epochs']} epochs"
        )


def run_export(args: argparse.Namespace) -> None:
    """Write the parameters as safetensors, and the ids of their rows as text files beside them."""
    model, out = load(args.directory), Path(required(args, "out", "name the file: --out FILE.safetensors"))
    arrays = {
        name: np.ascontiguousarray(array)
        for name, array in zip(model.params._fields, model.params, strict=True)
    }
    with replacing(out) as aside:
        save_file(
            arrays, aside, metadata={"model": model.kind, "mean": str(model.info["config"].get("mean", ""))}
        )
    for name, ids in (("users", model.catalogue.users), ("items", model.catalogue.items)):
        with replacing(out.with_suffix(f".{name}.txt")) as aside:
            aside.write_text("".join(f"{i}\n" for i in ids.tolist()), encoding="utf-8")
    if args.json:
        shapes = {name: list(array.shape) for name, array in arrays.items()}
        print_json({"command": "export", "model": model.kind, "out": str(out), "arrays": shapes})
    else:
        print(f"{out}: {', '.join(f'{name} {array.shape}' for name, array in arrays.items())}")
