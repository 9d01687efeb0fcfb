"""README.md and docs/: commands and Python programs run as printed, links lead somewhere, the site is built."""

import dataclasses
import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from functools import partial

import pytest

import benchmarks.__main__
import jaxcf.cli.main
import jaxcf.models
import jaxlm.cli.main
import jaxlm.models
from blocks import ROOT, blocks_of
from jaxfit.cli.parser import of_commands
from page_files import write_files

PARSERS = {
    "jaxlm": partial(of_commands, "jaxlm", "", jaxlm.cli.main.COMMANDS),
    "jaxcf": partial(of_commands, "jaxcf", "", jaxcf.cli.main.COMMANDS),
    "python -m benchmarks": benchmarks.__main__.parser,
}
# in an order in which what one page makes is there for the next; accelerators.md has commands of devices
USED = ("installation", "text", "documents", "tasks", "ratings", "training", "scaling", "python", "coming-from")
PAGES = ["README.md", *(f"docs/{name}.md" for name in USED)]
LINES = list(dict.fromkeys(line for page in PAGES for _, code in blocks_of(page, "sh") for line in code.splitlines()))
DOCS = ROOT / "docs"
PEERS = ("gensim", "surprise", "kenlm", "faiss")
COMMANDS = [
    (name, command.strip().removeprefix(name))
    for line in LINES
    for command in line.split("&&")
    for name in PARSERS
    if command.strip().startswith(name + " ")
]
# what is not executed here: the set-up, which `.ci/run` does but for the table, made at the scale `tiny` in
# tests/benchmarks/language/; this suite; and the training on two machines, which
# tests/end_to_end/test_train_processes.py does with two processes of one machine
ELSEWHERE = [
    "python3 -m venv ",
    "python -m pytest ",
    "jaxlm train hlbl --train train.txt --out runs/hlbl --coordinator ",
]


@pytest.mark.parametrize(("name", "options"), COMMANDS, ids=lambda text: text.strip())
def test_commands_have_these_options(name, options):
    argv = shlex.split(options, comments=True)
    parsed = PARSERS[name]().parse_args(argv)
    assert callable(parsed.run)


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Make a folder with the files that are named, and recipes of two epochs: nothing asks what is learnt."""
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    for registry in (jaxlm.models.REGISTRY, jaxcf.models.REGISTRY):
        for recipes in (registry.get(name).recipes for name in registry.names()):
            for name, (recipe, config) in recipes.items():
                if getattr(recipe, "epochs", 0) > 2:
                    monkeypatch.setitem(recipes, name, (dataclasses.replace(recipe, epochs=2), config))


@pytest.mark.extended
@pytest.mark.parametrize("main", [jaxlm.cli.main.main, jaxcf.cli.main.main], ids=["jaxlm", "jaxcf"])
def test_commands_run_as_printed(small, capsys, main):
    shutil.rmtree("parts")  # the first command of jaxcf writes it
    program = main.__module__.partition(".")[0]
    for line in LINES:
        if line.startswith(f"{program} ") and not line.startswith(tuple(ELSEWHERE)):
            assert main(shlex.split(line, comments=True)[1:]) == 0, f"{line}: {capsys.readouterr().err}"
            assert capsys.readouterr().out, line


def test_every_command_is_run():
    others = [line for line in LINES if not line.startswith(("jaxlm ", "jaxcf ", *ELSEWHERE))]
    assert not others
    assert all(any(line.startswith(start) for line in LINES) for start in ELSEWHERE)


@pytest.mark.filterwarnings("ignore:Kneser-Ney")  # of a text that is too small for its discounts
def test_python_programs_run(small, capsys):
    """Those of docs/python.md twice: the second time they find their models finished."""
    assert jaxlm.cli.main.main(["train", "kn", "--train", "train.txt", "--order", "2", "--out", "kn"]) == 0
    assert jaxlm.cli.main.main(["export", "kn", "--format", "arpa", "--out", "lm.arpa"]) == 0
    capsys.readouterr()
    for page in [*PAGES, "docs/python.md"]:
        for _, code in blocks_of(page, "python"):
            if any(f"import {peer}" in code or f"from {peer}" in code for peer in PEERS):
                continue
            if "vectors.bin" in code:  # of gensim's program, on a text that has other words
                code = code.replace('"function"', '"the"').replace("epochs=20", "epochs=1")
                code = code.partition("theirs = ")[0]
            exec(compile(code, page, "exec"), {})
            printed = capsys.readouterr().out
            assert printed.strip(), page
            assert "nan" not in printed, page


@pytest.mark.parametrize("peer", PEERS)
def test_programs_of_other_libraries_run(small, capsys, peer):
    pytest.importorskip(peer, reason=f"{peer} is not installed: pip install -e '.[peers-quick,oracle]'")
    if peer == "kenlm":
        assert jaxlm.cli.main.main(["train", "kn", "--train", "train.txt", "--order", "2", "--out", "kn"]) == 0
        assert jaxlm.cli.main.main(["export", "kn", "--format", "arpa", "--out", "lm.arpa"]) == 0
    if peer == "faiss":
        assert jaxcf.cli.main.main(["train", "bias", "--ratings", "ratings.csv", "--out", "m"]) == 0
        assert jaxcf.cli.main.main(["export", "m", "--format", "numpy", "--out", "factors"]) == 0
    capsys.readouterr()
    for page in PAGES:
        for _, code in blocks_of(page, "python"):
            if f"import {peer}" in code or f"from {peer}" in code:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # theirs
                    exec(compile(code.replace('"function"', '"the"'), page, "exec"), {})
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize(
    "page",
    [
        *("README.md", "CHANGELOG.md"),
        *sorted(str(page.relative_to(ROOT)) for kind in ("*.md", "notebooks/*.ipynb") for page in DOCS.glob(kind)),
    ],
)
def test_links_lead_to_files_and_headings(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", (ROOT / page).read_text(encoding="utf-8")):
        name, _, heading = target.partition("#")
        if target.startswith("http"):
            continue
        file = (ROOT / page).parent / name if name else ROOT / page
        assert file.exists(), target
        if heading:
            titles = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.M)
            known = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
            assert heading in known, target


def test_the_rating_model_of_the_page_is_the_one_that_is_tested():
    ((_, code),) = (block for block in blocks_of("docs/adding-a-model.md", "python") if block[0] == "A rating model")
    assert (ROOT / "tests/conformance/toys/sgd_bias.py").read_text(encoding="utf-8").endswith(code)


def test_tables_begin_after_a_blank_line():
    for page in [*DOCS.glob("*.md"), *(ROOT / "benchmarks" / "results").glob("*.md"), ROOT / "README.md"]:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)  # without code
        assert not re.findall(r"^[^|\n].*\n\|.*", text, re.MULTILINE), page.name


@pytest.mark.extended
def test_the_site_is_built_without_warnings(tmp_path):
    pytest.importorskip("mkdocs", reason="MkDocs is not installed: pip install -e '.[docs]'")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    home = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert "Which model should I train?" in home
    notebook = (tmp_path / "site" / "notebooks" / "ratings" / "index.html").read_text(encoding="utf-8")
    assert re.search(r'<img [^>]*src="\.\./ratings_files/[^"]*\.png"', notebook)
    assert 'href="benchmarks/results/report.html"' in home
    assert (tmp_path / "site" / "benchmarks" / "results" / "report.html").is_file()
    for page in (home, notebook):
        assert not re.search(r'(src|href)="https?://(?!squidfunk)', page), "nothing is loaded from elsewhere"
