"""Derivatives of scans: a scan of (value, tangent) pairs forward, affine maps backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product

from tensorad.autodiff.folds import At, combiner_jacobian, dot
from tensorad.ir.combiner import Combiner, make_combiner
from tensorad.ir.dtypes import DType
from tensorad.ir.elementwise import compute_axes, formula
from tensorad.ir.expr import Axis, Expr, Param, add, cast, const, mul, read
from tensorad.ir.tensor import Scan, Tensor, outputs
from tensorad.ir.visit import substitute


@lru_cache(maxsize=1024)
def tangent_combiner(combiner: Combiner) -> Combiner:
    """(x, dx) and (y, dy) -> (f(x, y), D1 f dx + D2 f dy)."""
    m = combiner.arity
    by_state = combiner_jacobian(combiner, combiner.lhs)
    by_source = combiner_jacobian(combiner, combiner.rhs)

    def combine(x: tuple[Param, ...], y: tuple[Param, ...]) -> tuple[Expr, ...]:
        names: dict[Expr, Expr] = {}
        names.update(zip((*combiner.lhs, *combiner.rhs), (*x[:m], *y[:m]), strict=True))
        values = [substitute(r, names) for r in combiner.results]
        tangents: list[Expr] = []
        for c in range(m):
            total: Expr = const(0, combiner.identity[c].dtype)
            for d in range(m):
                for partial, tangent in ((by_state[c][d], x[m + d]), (by_source[c][d], y[m + d])):
                    if partial is not None:
                        part = mul(substitute(partial, names), cast(tangent, partial.dtype))
                        total = add(total, cast(part, total.dtype))
            tangents.append(total)
        return (*values, *tangents)

    identity = (*combiner.identity, *[const(0, c.dtype) for c in combiner.identity])
    name = f"tangent of {combiner.name}"
    return make_combiner(name, combine, identity, associative=combiner.associative)


def scan_tangents(op: Scan, tangents: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The tangents of a scan's outputs, from those of its sources."""
    combiner = tangent_combiner(op.combiner)
    sources = (*op.sources, *tangents)
    dual = Scan(f"d{op.name}", sources, op.axis, combiner, op.exclusive, op.reverse, op.source)
    return outputs(dual)[op.combiner.arity :]


@lru_cache(maxsize=64)
def _affine_combiner(m: int, dtype: DType) -> Combiner:
    """State (M, b) is the map v -> M v + b; a later map (N, c) gives (N M, N b + c)."""

    def combine(x: tuple[Param, ...], y: tuple[Param, ...]) -> tuple[Expr, ...]:
        def row_times(c: int, column: list[Param]) -> Expr:
            total: Expr = mul(y[c * m], column[0])
            for b in range(1, m):
                total = add(total, mul(y[c * m + b], column[b]))
            return total

        matrix = [
            row_times(c, [x[b * m + d] for b in range(m)]) for c, d in product(range(m), range(m))
        ]
        offset = [add(row_times(c, list(x[m * m :])), y[m * m + c]) for c in range(m)]
        return (*matrix, *offset)

    unit = [const(float(c == d), dtype) for c, d in product(range(m), range(m))]
    identity = (*unit, *[const(0, dtype) for _ in range(m)])
    return make_combiner("affine composition", combine, identity, associative=True)


def scan_adjoints(op: Scan, heads: Sequence[Tensor | None], n_batch: int) -> list[Tensor | None]:
    """The adjoints of a scan's sources, from those of its outputs (None is zero).

    With P_t the state before step t, B_t = J_t (B_{t+1} + H_t) is the adjoint that reaches
    P_t through step t, J_t the transposed Jacobian of the step by its state: an affine
    recurrence, itself a scan from the other end. (For an exclusive scan H_t belongs to P_t:
    B_t = J_t B_{t+1} + H_t.) The source's adjoint is D2(P_t, s_t)' applied to what reaches
    the state after step t. Heads have `n_batch` leading axes.
    """
    combiner, m = op.combiner, op.combiner.arity
    dtype = max((c.dtype for c in combiner.identity if c.dtype.is_float), key=lambda d: d.bits)
    states = outputs(op if op.exclusive else replace(op, exclusive=True))
    by_state = combiner_jacobian(combiner, combiner.lhs)
    by_source = combiner_jacobian(combiner, combiner.rhs)
    shape = next(h.shape for h in heads if h is not None)

    def stored(name: str, entry: Callable[[tuple[Axis, ...], At], Expr]) -> Tensor:
        axes = compute_axes(shape)
        operands: dict[Expr, Expr] = {}
        for c in range(m):
            operands[combiner.lhs[c]] = read(states[c], axes[n_batch:])
            operands[combiner.rhs[c]] = read(op.sources[c], axes[n_batch:])
        body = entry(axes, lambda e: cast(substitute(e, operands), dtype))
        return formula(f"{op.name}.{name}", axes, body, op.source)

    def head(c: int, axes: tuple[Axis, ...]) -> Expr | None:
        h = heads[c]
        return None if h is None else cast(read(h, axes), dtype)

    def step(c: int, d: int) -> Tensor:
        partial = by_state[d][c]
        return stored("step", lambda _, at: const(0, dtype) if partial is None else at(partial))

    def offset(c: int) -> Tensor:
        def entry(axes: tuple[Axis, ...], at: At) -> Expr:
            if op.exclusive:
                own = head(c, axes)
                return const(0, dtype) if own is None else own
            row = [by_state[d][c] for d in range(m)]
            return dot(
                [None if p is None else at(p) for p in row],
                [head(d, axes) for d in range(m)],
                dtype,
            )

        return stored("offset", entry)

    elements = [step(c, d) for c, d in product(range(m), repeat=2)]
    elements += [offset(c) for c in range(m)]
    backward = Scan(
        f"{op.name}.adjoint", tuple(elements), n_batch + op.axis, _affine_combiner(m, dtype),
        True, not op.reverse, op.source,
    )  # fmt: skip
    reaching = outputs(backward)[m * m :]

    def source_adjoint(d: int) -> Tensor | None:
        if not any(by_source[c][d] is not None for c in range(m)):
            return None

        def entry(axes: tuple[Axis, ...], at: At) -> Expr:
            after: list[Expr | None] = []
            for c in range(m):
                h = None if op.exclusive else head(c, axes)
                arrived = read(reaching[c], axes)
                after.append(arrived if h is None else add(arrived, h))
            column = [by_source[c][d] for c in range(m)]
            return dot([None if p is None else at(p) for p in column], after, dtype)

        return stored("source", entry)

    return [source_adjoint(d) for d in range(m)]
