"""An energy of pairs that a list of neighbours names: a table, or rows that begin anywhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workloads.problem import Array, Draw, Passes, Problem, Workload, pick, tensor
from tensorad import te, topi
from tensorad.ir.expr import Axis, Expr
from tensorad.ir.tensor import Tensor

CUTOFF = 4.0
KEPT = 0.9
"""The share of pairs that rows of different lengths hold."""


def energy(d: list[Expr], j: Axis) -> Expr:
    """The sum over j of the inverse squares of distances below the cutoff."""
    r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2]
    found: Expr = te.sum(te.select(r2 < CUTOFF, 1 / r2, 0), axis=j)
    return found


def atoms(d: Draw, side: int) -> Array:
    """Places near the points of a cubic lattice."""
    grid = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), -1).reshape(-1, 3)
    return grid.astype(np.float32) + d.uniform(-0.15, 0.15, side**3, 3)


def table(side: int, count: int) -> Array:
    """The nearest points of the lattice, round its ends."""
    steps = np.stack(np.meshgrid(*[np.arange(-3, 4)] * 3, indexing="ij"), -1).reshape(-1, 3)
    order = np.argsort((steps * steps).sum(1), kind="stable")[1 : count + 1]
    grid = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), -1).reshape(-1, 1, 3)
    x, y, z = np.moveaxis((grid + steps[order]) % side, -1, 0)
    found: Array = ((x * side + y) * side + z).astype(np.int64)
    return found


def neighbours(side: int, count: int) -> Problem:
    """As many neighbours for each atom."""
    n = side**3
    rows = np.repeat(np.arange(n), count)
    inputs = {"R": atoms(Draw(), side), "N": table(side, count)}

    def define(R: Tensor, N: Tensor) -> Tensor:
        j = te.reduce_axis(count, name="j")
        each = tensor(
            (n,), lambda a: energy([R[a, c] - R[N[a, j], c] for c in range(3)], j), name="E"
        )
        total: Tensor = topi.sum(each)
        return total

    def by_module(m: Any, where: Any, R: Any, N: Any) -> Any:
        d = R[:, None] - R[N]
        r2 = (d * d).sum(-1)
        return where(r2 < CUTOFF, 1 / r2, 0.0).sum()

    return Problem(
        inputs, ("R",), np.ones((), np.float32), define,
        lambda a, h: _pairs_numpy(a["R"], rows, a["N"].reshape(-1), h),
        {
            "torch": lambda t, R, N: by_module(t, t.where, R, N),
            "jax": lambda jax, R, N: by_module(jax, jax.numpy.where, R, N),
        },
        (10.0 * n * count, 24.0 * n * count), kinks=1e-3,
    )  # fmt: skip


def ragged_neighbours(side: int, count: int) -> Problem:
    """Rows of different lengths, one after the other."""
    n = side**3
    d = Draw()
    places, near = atoms(d, side), table(side, count)
    kept = d.uniform(0, 1, n, count) < KEPT
    ptr = np.concatenate([[0], kept.sum(1).cumsum()]).astype(np.int64)
    rows = np.repeat(np.arange(n), kept.sum(1))
    inputs = {"R": places, "ptr": ptr, "N": near[kept]}

    def define(R: Tensor, ptr: Tensor, N: Tensor) -> Tensor:
        def row(a: Axis) -> Expr:
            j = te.reduce_axis((ptr[a], ptr[a + 1]), name="j")
            return energy([R[a, c] - R[N[j], c] for c in range(3)], j)

        total: Tensor = topi.sum(tensor((n,), row, name="E"))
        return total

    def by_torch(t: Any, R: Any, ptr: Any, N: Any, rows: Any) -> Any:
        d = R[rows] - R[N]
        r2 = (d * d).sum(-1)
        return t.where(r2 < CUTOFF, 1 / r2, 0.0).sum()

    def by_jax(jax: Any, R: Any, ptr: Any, N: Any) -> Any:
        d = R[rows] - R[N]
        r2 = (d * d).sum(-1)
        return jax.numpy.where(r2 < CUTOFF, 1 / r2, 0.0).sum()

    pairs = len(rows)
    return Problem(
        inputs, ("R",), np.ones((), np.float32), define,
        lambda a, h: _pairs_numpy(a["R"], rows, a["N"], h), {"torch": by_torch, "jax": by_jax},
        (10.0 * pairs, 24.0 * pairs), kinks=1e-3, constants={"rows": rows},
    )  # fmt: skip


def _pairs_numpy(places: Array, rows: Array, near: Array, h: Array) -> Passes:
    """Sums by bincount, a component at a time."""

    def squares() -> tuple[Array, Array]:
        d = places[rows] - places[near]
        return d, np.einsum("pc,pc->p", d, d)

    def energies(r2: Array) -> Array:
        return np.where(r2 < CUTOFF, 1 / r2, 0)

    def forces(d: Array, r2: Array) -> list[Array]:
        pull = (np.where(r2 < CUTOFF, -2 / (r2 * r2), 0) * h)[:, None] * d
        n = len(places)
        columns = [np.bincount(rows, c, n) - np.bincount(near, c, n) for c in pull.T]
        return [np.stack(columns, 1).astype(places.dtype)]

    def both() -> list[Array]:
        d, r2 = squares()
        return [energies(r2).sum(), *forces(d, r2)]

    return Passes(lambda: [energies(squares()[1]).sum()], lambda: forces(*squares()), both)


WORKLOADS = (
    Workload(
        "neighbours", "gathered", {"side": 21, "count": 30}, neighbours,
        lambda r: {"side": pick(r, 8, 28), "count": pick(r, 12, 48)},
    ),
    Workload(
        "neighbours_ragged", "gathered", {"side": 21, "count": 30}, ragged_neighbours,
        lambda r: {"side": pick(r, 8, 28), "count": pick(r, 12, 48)},
    ),
)  # fmt: skip
