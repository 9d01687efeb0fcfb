"""The first hour of a user who comes with a folder of awkward files: every command, and what it must say.

    python tests/end_to_end/first_hour.py            in a new folder, with a transcript

`test_first_hour.py` runs the same in the suite. Texts and ratings are drawn here; nothing is prepared by hand.
"""

import bz2
import contextlib
import gzip
import io
import json
import lzma
import os
import shlex
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq
import pytest

import benchmarks.__main__
import jaxcf
import jaxcf.cli.main
import jaxlm.cli.main
from jaxfit.errors import UserError

PROGRAMS = {"jaxlm": jaxlm.cli.main.main, "jaxcf": jaxcf.cli.main.main, "benchmarks": benchmarks.__main__.main}
SMALL = "--num-features 4 --epochs 2"
NOUNS = ["clerk", "harbour", "letter", "winter", "market", "garden", "engine", "teacher", "bridge", "sailor"]
VERBS = ["saw", "left", "built", "carried", "remembered", "painted", "sold", "crossed"]
FRENCH = [
    "la",
    "maison",
    "était",
    "près",
    "du",
    "café",
    "où",
    "le",
    "garçon",
    "lit",
    "une",
    "lettre",
    "à",
    "sa",
    "mère",
]
CHINESE = list("我们在这里学习语言模型的方法和应用")


class Hour:
    """Runs commands in a folder, and checks what they say.

    transcript: whether commands and what they print are shown.
    """

    def __init__(self, folder: Path, transcript: bool = False) -> None:
        self.folder, self.transcript = folder, transcript

    def run(self, command: str, *phrases: str, status: int = 0, stdin: str = "") -> str:
        """Run a command line; its exit status, and phrases that it must print somewhere. Returns standard output."""
        program, *argv = shlex.split(command)
        out, err, given = io.StringIO(), io.StringIO(), sys.stdin
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin.encode())))
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.chdir(self.folder):
                ended = PROGRAMS[program](argv)
        except SystemExit as end:  # of --help
            ended = end.code or 0
        finally:
            sys.stdin = given
        said = out.getvalue() + err.getvalue()
        if self.transcript:
            print(f"\n$ {command}\n{said.rstrip()}")
        assert ended == status, f"{command}: exit status {ended}, not {status}\n{said}"
        if status == 2:
            errors = [line for line in err.getvalue().splitlines() if line.startswith(f"{program}: ")]
            assert errors, f"{command}: no line of an error\n{said}"
            assert err.getvalue().endswith(f"{errors[-1]}\n"), f"{command}: not one line at the end\n{said}"
        for phrase in phrases:
            assert phrase in said, f"{command}: does not say {phrase!r}\n{said}"
        return out.getvalue()

    def refused(self, command: str, *phrases: str, stdin: str = "") -> None:
        """Run a command line that must end in one line that says these phrases."""
        self.run(command, *phrases, status=2, stdin=stdin)

    def json(self, command: str, stdin: str = "") -> dict:
        """Run a command line with --json: standard output must be one JSON object, and nothing else."""
        return json.loads(self.run(f"{command} --json", stdin=stdin))


def prose(draws: np.random.Generator, lines: int) -> str:
    """Write English-like sentences, one a line, of which about one in eight has a name that occurs once."""
    text = []
    for _ in range(lines):
        subject, other, verb = draws.choice(NOUNS), draws.choice(NOUNS), draws.choice(VERBS)
        name = f" of {''.join(draws.choice(list('abcdefghij'), 9))}" if draws.random() < 0.12 else ""
        text.append(f"The {subject}{name} {verb} the {other} .\n")
    return "".join(text)


def write_texts(folder: Path) -> None:
    """Write texts as they come: raw prose, other languages and encodings, compressed, documents, damaged or empty."""
    draws = np.random.default_rng(0)
    for name, lines in (("train", 300), ("valid", 60), ("test", 60)):
        (folder / f"{name}.txt").write_text(prose(draws, lines))
    french = "".join(" ".join(draws.choice(FRENCH, 7)) + "\n" for _ in range(200))
    (folder / "french.txt").write_bytes(french.encode("latin-1", "replace"))
    (folder / "chinese.txt").write_text("".join("\u3000".join(draws.choice(CHINESE, 9)) + "\n" for _ in range(200)))
    blanks = ["\u00a0", "\u2028", "\u3000", " "]
    (folder / "blanks.txt").write_text("".join(f"a{blank}b{blank}c\nb a c\n" for blank in blanks))
    (folder / "unsegmented.txt").write_text("".join("".join(draws.choice(CHINESE, 30)) + "\n" for _ in range(50)))
    raw = (folder / "train.txt").read_bytes()
    (folder / "train.txt.bz2").write_bytes(bz2.compress(raw))
    (folder / "train.txt.xz").write_bytes(lzma.compress(raw))
    (folder / "cut.txt.gz").write_bytes(gzip.compress(raw)[:-20])
    (folder / "empty.txt").write_text("")
    with zipfile.ZipFile(folder / "book.xlsx", "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")


def write_ratings(folder: Path) -> None:
    """Write ratings as they come: other units, layouts and file types, swapped columns, bad lines, headers alone."""
    draws = np.random.default_rng(1)
    users, items = 60, 25
    pairs = np.stack(np.divmod(draws.permutation(users * items)[:700], items), axis=1)
    taste = np.sin(pairs[:, 0]) * np.cos(pairs[:, 1])
    stars = np.clip(np.rint(3 + 2 * taste + draws.normal(size=len(pairs)) / 2), 1, 5)
    rows = [(f"u{u}", f"i{i}", s) for (u, i), s in zip(pairs.tolist(), stars.tolist(), strict=True)]

    def lines(form: str, header: str = "", unit: float = 1.0, offset: float = 0.0, comma: bool = False) -> str:
        numbers = [f"{unit * s + offset:g}" for _, _, s in rows]
        numbers = [n.replace(".", ",") for n in numbers] if comma else numbers
        return header + "".join(form.format(u, i, n) for (u, i, _), n in zip(rows, numbers, strict=True))

    (folder / "ratings.csv").write_text(lines("{},{},{}\n", "u,i,r\n"))
    (folder / "percent.csv").write_text(lines("{},{},{}\n", "user,item,rating\n", 25, -25))
    (folder / "european.csv").write_text(lines("{};{};{}\n", "user;item;rating\n", 0.5, comma=True))
    (folder / "ratings.tsv").write_text(lines("{}\t{}\t{}\n"))
    (folder / "bad.csv").write_text(lines("{},{},{}\n", "user,item,rating\n") + "u1,i1,many\nu2\n")
    (folder / "header.csv").write_text("user,item,rating,timestamp\n")
    (folder / "short.csv").write_text("u,i,r,time\n")
    (folder / "counts.csv").write_text(lines("{},{},{}\n", "user,item,plays\n", 1) + "u1,new,99999\n")
    (folder / "strangers.csv").write_text("user,item,rating\nx1,y1,3\nx2,y2,4\n")
    (folder / "foreign.csv").write_text(lines("{},{},{}\n", "Benutzer,Artikel,Bewertung\n", 5, -15))
    popular = 0.6 * np.exp(-np.arange(400) / 40)
    rated = np.argwhere(draws.random((300, 400)) < popular).tolist()
    (folder / "swapped.csv").write_text("".join(f"m{item},{user},{user % 5 + 1}\n" for user, item in rated))
    (folder / "equal.csv").write_text(lines("{},{},{}\n", "user,item,rating\n", 0, 3))
    table = pa.table({"user": [r[0] for r in rows], "item": [r[1] for r in rows], "rating": [r[2] for r in rows]})
    pq.write_table(table, folder / "ratings.parquet")
    objects = [json.dumps({"user": u, "item": i, "rating": s}) for u, i, s in rows]
    (folder / "ratings.jsonl").write_text("\n".join(objects) + "\n")


def language_models(hour: Hour) -> None:
    """Try raw prose: the README's five commands, words that were never seen, other encodings, languages, file types."""
    hlbl = f"jaxlm train hlbl --tree adaptive --epsilon 0.4 --copies 2 {SMALL}"
    hour.run(f"{hlbl} --train train.txt --valid valid.txt --out runs/hlbl", "seen once become <unk>", "% of its")
    hour.run("jaxlm train kn --order 5 --train train.txt --out runs/kn5", "seen once become <unk>")
    hour.run("jaxlm eval runs/hlbl --text test.txt --mix runs/kn5 --fit-weight-on valid.txt", "without <unk>")
    hour.run('jaxlm next runs/hlbl "The clerk of Zzyzx"', "Zzyzx")
    hour.run("jaxlm neighbours runs/hlbl harbour")
    words = [hour.json(f"jaxlm info runs/{name}")["words"] for name in ("hlbl", "kn5")]
    assert words[0] == words[1]
    hour.run("jaxlm eval --text test.txt runs/kn5", "unknown words")
    found = hour.json("jaxlm eval --text test.txt runs/kn5")
    assert found["unknown"] > 0
    assert found["events_without_unk"] + found["unknown"] == found["events"]
    hour.run("jaxlm score runs/kn5 --words", "clerk\t", stdin="The clerk left the town .\n")
    assert len(hour.json("jaxlm score runs/kn5", stdin="The clerk\nThe letter\n")["log10"]) == 2
    drawn = hour.run('jaxlm sample runs/kn5 --prefix "The letter" --length 5 --temperature 0.5')
    assert drawn.startswith("The letter")
    assert hour.json("jaxlm sample runs/kn5 --lines 3")["lines"]
    hour.run("jaxlm next runs/kn5 -", stdin="The clerk\n")
    hour.run("jaxlm train kn --train train.txt --lower --out runs/lower")
    hour.run("jaxlm train lbl --train train.txt --lower --out runs/lower-lbl --num-features 4 --epochs 1 --quiet")
    hour.run("jaxlm neighbours runs/lower-lbl Harbour")
    hour.refused("jaxlm train kn --train french.txt --out runs/french", "--encoding latin-1")
    hour.run("jaxlm train kn --train french.txt --encoding latin-1 --out runs/french")
    hour.run('jaxlm next runs/french "la maison"')
    hour.run("jaxlm train kn --train chinese.txt --out runs/chinese", "all words of the training text are kept")
    hour.run("jaxlm eval runs/chinese --text chinese.txt")
    assert hour.json("jaxlm train unigram --train blanks.txt --out runs/blanks")["words"] == 5  # a b c <eos> <unk>
    hour.run("jaxlm train kn --train unsegmented.txt --out runs/long", "separate their words")
    hour.run("jaxlm train kn --train train.txt --closed-vocabulary --out runs/closed", "closed vocabulary")
    hour.refused("jaxlm eval runs/closed --text test.txt", "unknown word", "--closed-vocabulary")
    for compressed in ("train.txt.bz2", "train.txt.xz"):
        hour.run(f"jaxlm train unigram --train {compressed} --out runs/{compressed}")
    for file, said in {
        "book.xlsx": "Excel",
        "ratings.parquet": "parquet",
        "cut.txt.gz": "damaged",
        "empty.txt": "empty",
        "nothing.txt": "no such file",
    }.items():
        hour.refused(f"jaxlm train kn --train {file} --out runs/refused", said)
    hour.refused("jaxlm train hlbl --train train.txt --tree train.txt --out runs/refused", "tree")


def recommenders(hour: Hour) -> None:
    """Try ratings in other units, layouts and file types: it says what it read, and answers in the user's units."""
    hour.run("jaxcf split ratings.csv --scheme random --out parts")
    train = "--ratings parts/train.csv --valid parts/valid.csv --test parts/test.csv"
    hour.run(f"jaxcf train pmf {train} {SMALL} --out runs/pmf", "60 users, 25 items")
    hour.run(f"jaxcf train pmf --ratings percent.csv {SMALL} --out runs/percent", "0 to 100")
    best = hour.json("jaxcf recommend runs/percent --user u3")["recommended"]["u3"]
    assert max(item["stars"] for item in best) > 10
    errors = []
    for file, options in {
        "ratings.csv": "",
        "ratings.tsv": "",
        "ratings.parquet": "",
        "ratings.jsonl": "",
        "european.csv": "--decimal ,",
        "bad.csv": "--skip-bad 2",
    }.items():
        found = hour.json(f"jaxcf train bias --ratings {file} {options} --test {file} --out runs/bias-{file}")
        errors.append(found["test"]["rmse_clipped"])
    np.testing.assert_allclose(errors, np.float64([1, 1, 1, 1, 0.5, 1]) * errors[0], rtol=1e-5)
    for command, said in {
        "--ratings bad.csv": "--skip-bad",
        "--ratings european.csv": "--decimal",
        "--ratings header.csv": "no ratings",
        "--ratings short.csv": "no ratings",
        "--ratings foreign.csv": "cannot be identified: Benutzer, Artikel, Bewertung",
        "--ratings ratings.csv --pairs ratings.csv": "no option --pairs",
        "--ratings book.xlsx": "Excel",
        "--ratings nothing.csv": "no such file",
    }.items():
        hour.refused(f"jaxcf train bias {command} --out runs/refused", said)
    for file, said in {
        "equal.csv": "are 3",
        "swapped.csv": "look swapped",
        "ratings.csv --valid strangers.csv": "no user and no item",
    }.items():
        hour.run(f"jaxcf train bias --ratings {file} --out runs/warned --overwrite", "warning", said)
    hour.run("jaxcf train bias --ratings foreign.csv --columns Benutzer,Artikel,Bewertung --out runs/de", "-10 to 10")
    for file in ("foreign.csv --columns 1,2,3", "counts.csv --columns user,item,plays"):
        hour.run(f"jaxcf train cpmf --ratings {file} {SMALL} --out runs/cpmf --overwrite", "RMSE")
    hour.run("jaxcf train rbm --ratings percent.csv --levels 5 --num-hidden 3 --epochs 1 --out runs/rbm")
    assert len(hour.json("jaxcf predict runs/pmf --pairs parts/test.csv")["predicted"]) > 10
    with pytest.raises(UserError, match="lists"):
        jaxcf.load(hour.folder / "runs" / "pmf").predict(["u1", "u2"], ["i1"])
    hour.refused("jaxcf export runs/pmf --out factors.csv", ".safetensors")
    hour.run("jaxcf export runs/pmf --out factors.safetensors")
    mode = (hour.folder / "parts" / "train.csv").stat().st_mode & 0o777
    assert mode == 0o666 & ~_umask()


def trainings(hour: Hour) -> None:
    """Try a training that diverges and begins again, goes on for more epochs, is replaced, drawn and described."""
    train = "jaxcf train pmf --ratings ratings.csv --num-features 4"
    hour.refused(f"{train} --rate 1e6 --out runs/again", "not finite", "lower --rate")
    hour.run(f"{train} --no-anneal --epochs 2 --out runs/again", "rate")
    hour.refused(f"{train} --no-anneal --epochs 2 --out runs/again", "is there already", "--overwrite")
    hour.run(f"{train} --no-anneal --epochs 4 --out runs/again --resume")
    assert hour.json("jaxcf info runs/again")["epochs"] == 4
    hour.run(f"{train} --epochs 1 --out runs/again --overwrite --quiet")
    hour.refused(f"{train} --epochs 2 --out runs/again --resume", "cosine")
    hour.run("jaxcf info runs/again --plot curve.png")
    assert (hour.folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    card = (hour.folder / "runs" / "again" / "README.md").read_text()
    assert "jaxcf.load" in card
    whole = hour.json("jaxlm train kn --train train.txt --out runs/one")["events"]["train"]
    both = hour.json("jaxlm train kn --train train.txt --train valid.txt --out runs/both")["events"]["train"]
    assert both > whole
    hour.run("jaxcf train pmf --help", "--help-all")
    assert len(hour.run("jaxcf train pmf --help-all")) > len(hour.run("jaxcf train pmf --help"))
    hour.refused("benchmarks data nosuch", "nosuch")
    hour.refused("jaxcf train pmf --ratigns ratings.csv --out runs/x", "did you mean --ratings?")


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


def main(folder: Path, transcript: bool = False) -> None:
    """Spend the hour in a folder."""
    write_texts(folder)
    write_ratings(folder)
    hour = Hour(folder, transcript)
    for part in (language_models, recommenders, trainings):
        part(hour)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as new:
        main(Path(new), transcript=True)
