"""Tensors with their first two axes exchanged."""

from __future__ import annotations

from tensorad.ir.arrays.elementwise import compute_axes, formula
from tensorad.ir.expr import read
from tensorad.ir.tensor import Tensor


def rows_first(t: Tensor) -> Tensor:
    """(iterations, rows, ...) -> (rows, iterations, ...)"""
    return _exchanged(t)


def iterations_first(t: Tensor) -> Tensor:
    """(rows, iterations, ...) -> (iterations, rows, ...)"""
    return _exchanged(t)


def places_first(t: Tensor) -> Tensor:
    """(rows, places of a stack, ...) -> (places, rows, ...)"""
    return _exchanged(t)


def _exchanged(t: Tensor) -> Tensor:
    axes = compute_axes((t.shape[1], t.shape[0], *t.shape[2:]))
    return formula(t.name, axes, read(t, (axes[1], axes[0], *axes[2:])), "")
