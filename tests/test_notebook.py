"""The notebook runs from top to bottom, and its texts and figures are those of this version."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).resolve().parent.parent / "notebooks" / "tvm_autodiff.ipynb"

SECTIONS = [
    "# Automatic differentiation of tensor formulas",
    "## Taking a gradient",
    "## How it works internally",
    "## Dense",
    "## Conv2D",
    "## Average pooling",
    "## Softmax, written by hand",
    "## Flatten",
    "## Max pooling",
    "## Softmax from the library",
]


def test_every_section_is_there() -> None:
    text = "\n".join(c.source for c in nbformat.read(NOTEBOOK, as_version=4).cells)
    assert [s for s in SECTIONS if s not in text] == []


@pytest.mark.slow
def test_the_notebook_runs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    shown = [outputs_of(c) for c in notebook.cells]
    client = NotebookClient(
        notebook, timeout=300, resources={"metadata": {"path": str(NOTEBOOK.parent.parent)}}
    )
    client.execute()
    run = [outputs_of(c) for c in notebook.cells]
    for before, after in zip(shown, run, strict=True):
        assert before == after


def outputs_of(cell: nbformat.NotebookNode) -> list[str]:
    """The printed texts of a cell, without times and random errors."""
    found = []
    for output in cell.get("outputs", []):
        text = output.get("text", "") + output.get("data", {}).get("text/plain", "")
        if not any(word in text for word in (" ms ", "e-", "e+")):
            found.append(text)
    return found
