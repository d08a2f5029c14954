"""Polynomial bounds of indices: what they prove holds at every point of every small size."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

import tensorad as ta
from tensorad.ir.expr import Axis, Call, Const, Expr, int_const
from tensorad.ir.visit import postorder
from tensorad.simplify.bounds.polynomials import stays_below
from tensorad.simplify.bounds.reads import classify_reads

n, m = ta.size("n"), ta.size("m")
A, B = ta.reduce_axis(n, "i"), ta.reduce_axis(m, "j")
K, L = ta.reduce_axis(n * m, "k"), ta.reduce_axis((1, 4 * m), "l")
R = ta.reduce_axis((0, A + 1), "r")
EXTENTS = [n, m, n * m, 4 * m, n + 1, n * m + n, int_const(4)]

OPERATIONS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
}


def evaluate(root: Expr, leaves: dict[Expr, int]) -> int:
    values = dict(leaves)
    for e in postorder(root):
        if isinstance(e, Const):
            values[e] = int(e.value)
        elif isinstance(e, Call):
            values[e] = OPERATIONS[e.op](*[values[a] for a in e.args])
    return values[root]


def points(index: Expr) -> Iterator[dict[Expr, int]]:
    """Every point of the axes that the index uses, at small sizes (0 included)."""
    used = [e for e in postorder(index) if isinstance(e, Axis)]
    axes = [A, *[e for e in used if e is not A]] if any(e is R for e in used) else used
    for a, b in product(range(4), repeat=2):
        ends = {A: range(a), B: range(b), K: range(a * b), L: range(1, 4 * b), R: range(a)}
        for p in product(*[ends[e] for e in axes]):
            point = {n: a, m: b, **dict(zip(axes, p, strict=True))}
            if point.get(R, 0) <= point.get(A, 0):
                yield point


def random_formula(rng: np.random.Generator, depth: int) -> Expr:
    leaves: list[Expr] = [A, B, K, L, R, n, m, int_const(2)]
    if depth == 0:
        return leaves[rng.integers(len(leaves))]
    a, b = random_formula(rng, depth - 1), random_formula(rng, int(rng.integers(depth)))
    match int(rng.integers(6)):
        case 0:
            return a + b
        case 1:
            return a - b
        case 2 | 3:
            return a * b
        case 4:
            return a // b if not _is_zero(b) else a
        case _:
            return a % b if not _is_zero(b) else a


def _is_zero(e: Expr) -> bool:
    return isinstance(e, Const) and e.value == 0


def test_what_is_proved_holds_everywhere() -> None:
    rng = np.random.default_rng(1)
    proved = 0
    for _ in range(3000):
        index = random_formula(rng, int(rng.integers(4)))
        extent = EXTENTS[rng.integers(len(EXTENTS))]
        if not stays_below(index, extent):
            continue
        proved += 1
        for p in points(index):
            assert 0 <= evaluate(index, p) < evaluate(extent, p), f"{index} < {extent}"
    assert proved > 60


@pytest.mark.parametrize(
    ("index", "extent"),
    [
        (A * m + B, n * m),
        (K // m, n),
        (K % m, m),
        (L // m, int_const(4)),
        (L % m, m),
        (A % 4 * m + B, 4 * m),
        (R * m + B, n * m),
        (K // m * m + K % m, n * m),
    ],
    ids=str,
)
def test_what_reshapes_need_is_proved(index: Expr, extent: Expr) -> None:
    assert stays_below(index, extent)


@pytest.mark.parametrize(
    ("index", "extent"),
    [
        (A * m + B, n * m - 1),
        (K // n, n),
        (K % n, m),
        (A * n + B, n * m),
        (B - A, m),
        (n * m - 1 - K, n * m),
        (A + 1, n),
        (K // (m + 1), n),
    ],
    ids=str,
)
def test_what_is_wrong_or_unknown_is_not(index: Expr, extent: Expr) -> None:
    assert not stays_below(index, extent)


def test_a_symbolic_reshape_needs_no_check_at_run_time() -> None:
    X = ta.placeholder((n, m), name="X")
    flat = ta.topi.reshape(X, (n * m,))
    back = ta.topi.reshape(flat, (n, m))
    for t in (flat, back):
        assert set(classify_reads(t.op).values()) == {"always"}
