"""The fingerprint of source code: what changes it, and what does not."""

from pathlib import Path

import pytest

from benchmarks.core.source import AT_START, ROOT, closure, fingerprint

MODEL = '''"""A model."""

from typing import TYPE_CHECKING

from jaxfit.step import move  # how it is trained

if TYPE_CHECKING:
    from jaxlm.other import LIMIT


def loss(x: float) -> float:
    """The loss of one example."""
    # equation 1
    return move(x) - 1.0
'''


@pytest.fixture
def project(tmp_path: Path):
    """Return a function that writes a project of some files, with changes, and fingerprints its model."""
    number = 0

    def made(**changes: str) -> str:
        nonlocal number
        number += 1  # files are read once
        root = tmp_path / str(number)
        files = {
            "jaxlm/__init__.py": "", "jaxlm/models/__init__.py": 'MODELS = ["a"]\n', "jaxlm/models/a.py": MODEL,
            "jaxlm/other.py": "LIMIT = 1\n", "jaxfit/__init__.py": "",
            "jaxfit/step.py": "from . import rate\n\n\ndef move(x):\n    return rate.RATE * x\n",
            "jaxfit/rate.py": "import numpy as np\n\nRATE = np.float32(2)\n",
        } | changes  # fmt: skip
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return fingerprint(("jaxlm.models.a",), root)

    return made


def test_docstrings_comments_and_layout_do_not_change_it(project) -> None:
    before = project()
    for old, new in (
        ("The loss of one example.", "The loss, in nats."),
        ("# equation 1", "# equation 2, which follows from\n    # equation 1"),
        ('    """The loss of one example."""\n', ""),
        ("move(x) - 1.0", "(\n        move(x)\n        - 1.0\n    )"),
    ):
        assert MODEL.replace(old, new) != MODEL
        assert project(**{"jaxlm/models/a.py": MODEL.replace(old, new)}) == before


def test_code_changes_it(project) -> None:
    before = project()
    for old, new in (("- 1.0", "+ 1.0"), ("1.0", "2.0"), ("def loss", "def cost")):
        assert project(**{"jaxlm/models/a.py": MODEL.replace(old, new)}) != before


def test_code_that_is_imported_changes_it_and_other_code_does_not(project) -> None:
    before = project()
    assert project(**{"jaxfit/rate.py": "import numpy as np\n\nRATE = np.float32(3)\n"}) != before
    assert project(**{"jaxlm/other.py": "LIMIT = 2\n"}) == before
    assert project(**{"jaxlm/models/__init__.py": 'MODELS = ["a", "b"]\n'}) == before
    assert project(**{"jaxlm/models/b.py": "B = 1\n"}) == before


def test_files_that_are_edited_while_the_process_runs_do_not_change_it(project, tmp_path, monkeypatch) -> None:
    before = project()
    monkeypatch.setitem(AT_START, tmp_path / "2" / "jaxlm/models/a.py", MODEL.encode())
    assert project(**{"jaxlm/models/a.py": MODEL.replace("1.0", "2.0")}) == before
    assert closure(["jaxlm.models.lbl", "jaxcf.training"]) <= AT_START.keys()


def test_a_module_that_is_not_there_is_refused(project) -> None:
    with pytest.raises(ValueError, match=r"jaxlm\.models\.nothing is not a module"):
        fingerprint(("jaxlm.models.nothing",))


def test_the_closure_of_a_model_holds_the_engine_and_not_the_other_package() -> None:
    found = {path.relative_to(ROOT).as_posix() for path in closure(["jaxlm.models.lbl", "jaxfit.fit"])}
    assert {"jaxlm/models/lbl.py", "jaxfit/fit.py", "jaxfit/loop.py", "jaxfit/tables.py"} <= found
    assert not any(name.startswith(("jaxcf/", "benchmarks/")) for name in found)
