"""What tests of language models share: trees of all rules, trained models, the command."""

import pytest

from jaxlm.cli.main import main
from jaxlm.trees.paths import Tree
from small_models import SMALL, write_text
from word_trees import make_tree

TREES = [
    ("random", 0.0, 1, False),
    ("balanced", 0.0, 1, False),
    ("adaptive", 0.0, 1, False),
    ("adaptive", 0.25, 1, False),
    ("adaptive", 0.4, 1, False),
    ("noisy-adaptive", 0.4, 1, False),
    ("huffman", 0.0, 1, False),
    ("random", 0.0, 4, True),
    ("adaptive", 0.4, 2, False),
    ("adaptive", 0.4, 3, False),
    ("adaptive", 0.4, 4, False),
]


@pytest.fixture(params=TREES, ids=lambda k: f"{k[0]}({k[1]})x{k[2]}{'r' if k[3] else ''}")
def tree(request) -> Tree:
    return make_tree(*request.param)


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """Make a folder with texts and a trained model of most names."""
    folder = tmp_path_factory.mktemp("cli")
    files = {name: write_text(folder / f"{name}.txt", seed) for seed, name in enumerate(["train", "valid", "test"])}
    for kind, options in {
        "unigram": [],
        "gt": ["--order", "2"],
        "kn": ["--order", "3"],
        "lbl": SMALL,
        "hlbl": [*SMALL, "--tree", "adaptive", "--epsilon", "0.3", "--copies", "2"],
    }.items():
        command = ["train", kind, "--train", files["train"], "--valid", files["valid"]]
        assert main([*command, "--min-count", "2", *options, "--out", str(folder / kind)]) == 0
    return folder


@pytest.fixture
def call(capsys):
    """Run a command line that must succeed; its standard output."""

    def run(*argv):
        capsys.readouterr()
        status = main([str(argument) for argument in argv])
        out, err = capsys.readouterr()
        assert status == 0, err
        return out

    return run
