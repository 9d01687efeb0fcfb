"""What the documentation's site has besides the pages in `docs/`: README.md, the changelog, and recorded results.

A hook of MkDocs (`mkdocs.yml`). Links are those of the files as they lie in the repository; here they are made to fit.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
RESULTS = "benchmarks/results"
PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md"}  # of the repository -> of the site
LINK = re.compile(r"(\]\()([^)#\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and pictures that lie elsewhere."""
    for source, target in PAGES.items():
        files.append(File.generated(config, target, content=_fitted(ROOT / source, Path(target).parent)))
    for path in sorted((ROOT / RESULTS).iterdir()):
        name = f"{RESULTS}/{path.name}"
        if path.suffix == ".md":
            files.append(File.generated(config, name, content=path.read_text(encoding="utf-8")))
        elif path.suffix in (".png", ".html", ".json"):
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page, config: MkDocsConfig, files: Files) -> str:
    """Make the links of pages in `docs/`, which lie beside `benchmarks/` in the repository, those of the site."""
    return markdown.replace(f"](../{RESULTS}", f"]({RESULTS}").replace("](../CHANGELOG.md", "](changelog.md")


def _fitted(path: Path, folder: Path) -> str:
    """Return a page of the repository's top folder with links that fit the site."""

    def replaced(found: re.Match[str]) -> str:
        target = found[2].removeprefix("docs/")
        return found[1] + PAGES.get(target, target)

    return LINK.sub(replaced, path.read_text(encoding="utf-8"))
