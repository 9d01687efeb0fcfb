"""`jaxcf split`: ratings into files of training, validation and test ratings."""

import argparse
from collections.abc import Iterator

from jaxcf.data import reading, writing
from jaxcf.data.ratings import Ratings
from jaxcf.data.reading import Reading
from jaxfit.cli import options
from jaxfit.cli.command import note, output, print_json
from jaxfit.cli.parser import Parser
from jaxfit.errors import UserError
from jaxfit.recipe import SEED
from jaxfit.wording import quantity

SCHEMES = {
    "random": "train, valid and test drawn at random",
    "kfold": "train and test of every fold",
    "thesis": "each user's nine latest ratings held out, a third of them for validation (thesis, 5.4.1)",
    "users": "users left out: half of what they rated is known, the other asked",
}
# option -> the scheme that it is of, default, meaning
SHARES: dict[str, tuple[str, float, str]] = {
    "valid": ("random", 0.05, "share of the ratings for validation"),
    "test": ("random", 0.1, "share of the ratings for the test"),
    "users": ("users", 0.1, "share of the users that are left out"),
    "folds": ("kfold", 5, "number of folds"),
}


def add(parser: Parser) -> None:
    """Give the parser of `jaxcf split` its options."""
    schemes = "\n".join(f"  {name:8s} {about}" for name, about in SCHEMES.items())
    parser.description = f"Split ratings, or counts, into CSV files.\n\n{schemes}"
    parser.set_defaults(run=run)
    parser.add_argument("files", nargs="+", metavar="FILE", help="ratings (- is standard input)")
    parser.add_argument(
        "--scheme", type=options.choice("--scheme", SCHEMES), default="random", metavar="|".join(SCHEMES),
        help="how (default: random)",
    )  # fmt: skip
    parser.add_argument("--out", metavar="DIR", help="folder for the files")
    share = parser.add_argument_group("shares")
    for name, (scheme, default, what) in SHARES.items():
        whole = isinstance(default, int)
        number = options.number(f"--{name}", low=2) if whole else options.number(f"--{name}", float, high=1)
        about = f"{what} ({scheme}; default: {default})"
        share.add_argument(f"--{name}", type=number, metavar="N" if whole else "SHARE", help=about)
    seed = options.number("--seed", **SEED)
    share.add_argument("--seed", type=seed, default=1, metavar="N", help="of the draws (default: 1)")
    reading_options = parser.add_argument_group("reading")
    reading_options.add_argument(
        "--counts", action="store_true",
        help="the values are counts, of plays or purchases, and 1 in files of pairs; those of a pair are added up",
    )  # fmt: skip
    options.add(reading_options, Reading)
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")


def run(args: argparse.Namespace) -> None:
    """Split, and say what was written."""
    out = output(args, folder=True)
    for name, (scheme, default, _) in SHARES.items():
        if getattr(args, name) is None:
            setattr(args, name, default)
        elif args.scheme != scheme:
            raise UserError(f"it does not go with --scheme {args.scheme}", f"--{name}", f"use --scheme {scheme}")
    how = Reading.of(options.given(args, Reading), args.counts)
    table = reading.read(args.files, how, counts=args.counts, times=True, exact=True)
    note(args, *table.notes)
    files = {out / f"{name}.csv": part for name, part in parts(args, table.ratings)}
    for path in files:
        if path.exists():
            raise UserError("a file is there already", path, "remove the file, or choose another --out")
    writing.write(files, table.catalogue, args.counts)
    written = {str(path): len(part.user) for path, part in files.items()}
    if args.json:
        print_json({"command": "split", "scheme": args.scheme, "files": written})
        return
    for file, number in written.items():
        print(f"{file}: {quantity(number, 'pair' if args.counts else 'rating')}")


def parts(args: argparse.Namespace, ratings: Ratings) -> Iterator[tuple[str, Ratings]]:
    """Yield the names of the scheme's parts and the parts."""
    import jax  # here, so that wrong options are reported without waiting for it

    from jaxcf.data import splits

    key = jax.random.key(args.seed)
    if args.scheme == "kfold":
        for i, (train, test) in enumerate(splits.kfold(key, ratings, args.folds), start=1):
            yield f"train{i}", train
            yield f"test{i}", test
    elif args.scheme == "users":
        held = splits.users(key, ratings, args.users)
        for name in ("train", "known", "queried"):
            yield name, getattr(held, name)
    elif args.scheme == "thesis":
        for name, part in splits.thesis(key, ratings)._asdict().items():
            if not len(part.user):
                what = f"of {quantity(len(ratings.user), 'rating')} none is drawn for {name}"
                raise UserError(what, "--scheme thesis", "give more ratings, another --seed, or --scheme random")
            yield name, part
    else:
        for name, part in splits.random(key, ratings, args.valid, args.test)._asdict().items():
            if name in SHARES and getattr(args, name) > 0 and not len(part.user):
                what = f"a share of {getattr(args, name):g} of {quantity(len(ratings.user), 'rating')} holds no rating"
                raise UserError(what, f"--{name}", "give a larger one, or 0")
            yield name, part
