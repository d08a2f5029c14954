"""Notebooks run from top to bottom, and their texts and figures are those of this version."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"

TVM_SECTIONS = [
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


SPARSE_SECTIONS = [
    "# Implicit time steps with a sparse Jacobian",
    "## The residual",
    "## Its Jacobian",
    "## Time steps",
    "## A Hessian",
    "## Indices from data",
]
TRAINING_SECTIONS = [
    "# Training on handwritten digits",
    "## The digits",
    "## A perceptron",
    "## An epoch is one call",
    "## Three optimisers",
    "## A convolutional network",
    "## What a call costs",
]
SECTIONS = {
    "tvm_autodiff": TVM_SECTIONS,
    "reaction_diffusion": SPARSE_SECTIONS,
    "digits": TRAINING_SECTIONS,
}
NEEDED = {"digits": ("sklearn", "matplotlib")}
"""Modules of the extra train."""


def read(name: str) -> nbformat.NotebookNode:
    return nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)


def test_every_notebook_is_tested() -> None:
    assert {p.stem for p in NOTEBOOKS.glob("*.ipynb")} == set(SECTIONS)


@pytest.mark.parametrize("name", SECTIONS)
def test_every_section_is_there(name: str) -> None:
    text = "\n".join(c.source for c in read(name).cells)
    assert [s for s in SECTIONS[name] if s not in text] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", SECTIONS)
def test_the_notebook_runs(name: str) -> None:
    for module in NEEDED.get(name, ()):
        pytest.importorskip(module, reason="the notebook needs the extra train")
    notebook = read(name)
    shown = [outputs_of(c) for c in notebook.cells]
    client = NotebookClient(
        notebook, timeout=300, coalesce_streams=True,
        resources={"metadata": {"path": str(NOTEBOOKS.parent)}},
    )  # fmt: skip
    client.execute()
    run = [outputs_of(c) for c in notebook.cells]
    for before, after in zip(shown, run, strict=True):
        assert before == after


def outputs_of(cell: nbformat.NotebookNode) -> list[str]:
    """The printed texts of a cell, without times, random errors and progress bars."""
    found = []
    for output in cell.get("outputs", []):
        text = output.get("text", "") + output.get("data", {}).get("text/plain", "")
        if not any(word in text for word in (" ms ", "e-", "e+", " epochs, ")):
            found.append(text)
    return found
