"""Notebooks: fresh, without outputs, and each runs from beginning to end. FTLAB_NOTEBOOKS names a directory that keeps
what they show."""

import importlib.util
import json
import os
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
for needed in ("ipykernel", "matplotlib", "polars", "pyarrow"):
    pytest.importorskip(needed)

# Kernels and their libraries warn of their own affairs.
pytestmark = pytest.mark.filterwarnings("default")
DIRECTORY = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(path.name for path in DIRECTORY.glob("*.ipynb"))
LONG = {"6-a-sweep-on-dask.ipynb"}


def test_notebooks_are_those_of_their_sources():
    spec = importlib.util.spec_from_file_location("make", DIRECTORY / "make.py")
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    assert [source.with_suffix(".ipynb").name for source in make.sources()] == NOTEBOOKS and len(NOTEBOOKS) == 6
    for source in make.sources():
        assert source.with_suffix(".ipynb").read_text() == make.notebook(source), f"run {DIRECTORY / 'make.py'}"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebooks_are_kept_without_outputs(name):
    cells = json.loads((DIRECTORY / name).read_text())["cells"]
    assert cells[0]["cell_type"] == "markdown"
    assert all(
        cell["outputs"] == [] and cell["execution_count"] is None for cell in cells if cell["cell_type"] == "code"
    )
    for cell in cells:
        if cell["cell_type"] == "code":
            compile("".join(cell["source"]), name, "exec")


@pytest.mark.parametrize("name", [name for name in NOTEBOOKS if name not in LONG])
def test_notebooks_run(name):
    notebook = nbformat.read(DIRECTORY / name, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(DIRECTORY)}}).execute()
    told = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in told if output.output_type == "error"]
    # A cell that draws shows its picture.
    for cell in notebook.cells:
        if cell.cell_type == "code" and "ax = plots." in cell.source:
            assert any("image/png" in output.get("data", {}) for output in cell.outputs), cell.source
    if keep := os.environ.get("FTLAB_NOTEBOOKS"):
        nbformat.write(notebook, Path(keep) / name)
