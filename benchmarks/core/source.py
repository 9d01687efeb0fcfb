"""The fingerprint of the source code that determines a trained model, part of the model's identity."""

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import resolve_name
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("jaxfit", "jaxlm", "jaxcf")  # imports of other packages are recorded by their versions
# read as the process begins: files that are edited while it runs are not the code that it runs
AT_START = {
    path: path.read_bytes() for package in PACKAGES for path in (ROOT / package).rglob("*.py") if path.is_file()
}


@cache  # a table asks for each model's about ten times
def fingerprint(modules: tuple[str, ...], root: Path = ROOT) -> str:
    """Hash the code of some modules and of all that they import from the project.

    Comments, docstrings, layout and type-checking imports do not count. Neither does the file of a package itself,
    `__init__.py`: it lists what the package has, and one more model changes nothing for the others.

    Args:
        modules: names as they are imported, "jaxlm.models.lbl".
        root: the folder that holds the packages.

    Returns:
        16 hexadecimal digits.
    """
    files = sorted(path for path in closure(modules, root) if path.name != "__init__.py")
    lines = [f"{path.relative_to(root).as_posix()} {digest(path)}\n" for path in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]


def closure(modules: Iterable[str], root: Path = ROOT) -> set[Path]:
    """Find the files of modules and of all that they import from the project, directly or not.

    Raises:
        ValueError: one of the modules is not of the project.
    """
    left, known = list(modules), set()
    for module in left:
        if _file(module, root) is None:
            raise ValueError(f"{module} is not a module of {', '.join(PACKAGES)}")
    while left:
        path = _file(left.pop(), root)
        if path is not None and path not in known:
            known.add(path)
            left += _imports(path, root)
    return known


@cache
def _file(module: str, root: Path) -> Path | None:
    """Return the file of a module of the project; None for anything else."""
    if module.partition(".")[0] not in PACKAGES:
        return None
    place = root.joinpath(*module.split("."))
    places = place.with_suffix(".py"), place / "__init__.py"
    return next((path for path in places if path in AT_START or path.is_file()), None)


def _content(path: Path) -> bytes:
    """Return the content of a file, as it was when the process began."""
    return AT_START[path] if path in AT_START else path.read_bytes()


@cache
def _imports(path: Path, root: Path) -> tuple[str, ...]:
    """Return the modules that a file imports; of `from a import b`, a.b where that is a module, else a."""
    package = ".".join(path.relative_to(root).parent.parts)
    names = []
    for node in _statements(ast.parse(_content(path))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            inside = [f"{base}.{alias.name}" for alias in node.names]
            names += [name if _file(name, root) else base for name in inside]
    return tuple(names)


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk over all nodes but those under `if TYPE_CHECKING:`."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield from _statements(child)


@cache
def digest(path: Path) -> str:
    """Hash a file's code, written out in one style and without docstrings."""
    tree = ast.parse(_content(path))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
            ast.get_docstring(node, clean=False) is not None
        ):
            del node.body[0]
    return hashlib.sha256(ast.unparse(tree).encode()).hexdigest()
