"""The notebooks of docs/notebooks/: they are committed as executed, and run at a small size."""

import json
import tempfile

import pytest

from blocks import ROOT

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install -e '.[benchmarks]'")

# in place of the cell tagged `parameters`
SMALL = {
    "documents": "EPOCHS, CHAPTERS = 1, 5",
    "implicit": "USERS = 150",
    "ratings": "EPOCHS, USERS, FOLDS = 1, 150, 2",
    "text": "EPOCHS, LINES = 2, 300",
}
NOTEBOOKS = {path.stem: path for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))}


def cells_of(name):
    """Return the code cells of a notebook, and their sources at a small size."""
    cells = [cell for cell in json.loads(NOTEBOOKS[name].read_text())["cells"] if cell["cell_type"] == "code"]
    tagged = ["parameters" in cell["metadata"].get("tags", ()) for cell in cells]
    assert tagged.count(True) == 1
    sources = [SMALL[name] if small else "".join(cell["source"]) for cell, small in zip(cells, tagged, strict=True)]
    return cells, sources


def test_every_notebook_is_run():
    assert SMALL.keys() == NOTEBOOKS.keys()


@pytest.mark.parametrize("name", SMALL)
def test_committed_notebooks_were_executed_from_top_to_bottom(name):
    cells, _ = cells_of(name)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error"]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert NOTEBOOKS[name].stat().st_size < 300_000


@pytest.mark.extended
@pytest.mark.parametrize("name", [name for name in SMALL if name != "text"])
def test_notebooks_run_at_a_small_size(name, monkeypatch, tmp_path):
    """In this process, without the seconds that a kernel takes to start."""
    threadpoolctl = pytest.importorskip("threadpoolctl", reason="it is not installed: pip install -e '.[benchmarks]'")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    # threads of t-SNE that wait for one another on busy cores make it tens of times slower
    with matplotlib.rc_context({"backend": "agg"}), threadpoolctl.threadpool_limits(1):
        names = {}
        for number, source in enumerate(cells_of(name)[1], 1):
            exec(compile(source, f"{name}.ipynb, cell {number}", "exec"), names)
        assert names["plt"].get_fignums()
        names["plt"].close("all")


@pytest.mark.extended
def test_in_a_kernel_progress_is_one_line(monkeypatch, tmp_path):
    nbclient = pytest.importorskip("nbclient", reason="nbconvert is not installed: pip install -e '.[docs]'")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed: pip install -e '.[docs]'")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(NOTEBOOKS["text"], as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for cell, source in zip(code, cells_of("text")[1], strict=True):
        cell.source = source
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    (training,) = (cell for cell in code if 'jaxlm.train("lbl"' in cell.source)
    (shown,) = (output.data["text/plain"] for output in training.outputs if output.output_type == "display_data")
    assert shown.startswith("lbl: epoch 2 of 2, perplexity")
    assert not [output for output in training.outputs if "epoch 1" in output.get("text", "")]
