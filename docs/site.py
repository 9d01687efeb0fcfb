"""What the documentation's site has besides the pages in `docs/`: README.md, the changelog, results, notebooks.

A hook of MkDocs (`mkdocs.yml`). Links are those of the files as they lie in the repository; here they are made to fit.
"""

import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from nbconvert import MarkdownExporter

ROOT = Path(__file__).parents[1]
RESULTS = "benchmarks/results"
REPORT = f"{RESULTS}/report.html"
PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md"}  # of the repository -> of the site
TABLE_STYLE = re.compile(r"<style scoped>.*?</style>\n", re.DOTALL)
LINK = re.compile(r"(\]\()([^)#\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and pictures that lie elsewhere."""
    for source, target in PAGES.items():
        files.append(File.generated(config, target, content=_fitted(ROOT / source, Path(target).parent)))
    for path in sorted((ROOT / RESULTS).rglob("*")):
        name = path.relative_to(ROOT).as_posix()
        if name == REPORT:  # there may be an old one
            continue
        if path.suffix == ".md":
            files.append(File.generated(config, name, content=path.read_text(encoding="utf-8")))
        elif path.suffix in (".png", ".html", ".json"):
            files.append(File.generated(config, name, abs_src_path=str(path)))
    files.append(File.generated(config, REPORT, content=_report()))
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        files.remove(notebook)
        _add_notebook(files, config, Path(notebook.abs_src_path or ""), notebook.src_uri.removesuffix(".ipynb"))
    return files


def on_page_markdown(markdown: str, page, config: MkDocsConfig, files: Files) -> str:
    """Make the links of pages in `docs/`, which lie beside `benchmarks/` in the repository, those of the site."""
    markdown = markdown.replace(f"](../{RESULTS}", f"]({RESULTS}").replace("](../CHANGELOG.md", "](changelog.md")
    markdown = markdown.replace(f"`{REPORT}`", f"[`{REPORT}`]({REPORT})")  # which the repository has not
    return markdown.replace(".ipynb)", ".md)")


def _report() -> str:
    """Return the page that `python -m benchmarks report` makes, which Git does not hold."""
    sys.path.append(str(ROOT))
    from benchmarks import registry
    from benchmarks.report import html

    page = html.render(ROOT / REPORT, ROOT / RESULTS, registry.TABLES, ROOT / "docs" / "fidelity.png")
    return page.replace('"./README.md"', '"./"')


def _add_notebook(files: Files, config: MkDocsConfig, path: Path, name: str) -> None:
    """Add a notebook, with the outputs it was committed with, as a page of this name, and its pictures."""
    made = {"output_files_dir": f"{path.stem}_files"}
    page, resources = MarkdownExporter().from_filename(str(path), resources=made)
    page = TABLE_STYLE.sub("", page).replace(' border="1" class="dataframe"', "")  # tables look as all others do
    page = re.sub(r"\n{4,}", "\n\n", page)  # between outputs, which become one block
    files.append(File.generated(config, f"{name}.md", content=page))
    for picture, content in resources["outputs"].items():
        files.append(File.generated(config, str(Path(name).parent / picture), content=content))


def _fitted(path: Path, folder: Path) -> str:
    """Return a page of the repository's top folder with links that fit the site."""

    def replaced(found: re.Match[str]) -> str:
        target = found[2].removeprefix("docs/")
        return found[1] + PAGES.get(target, target)

    return LINK.sub(replaced, path.read_text(encoding="utf-8"))
