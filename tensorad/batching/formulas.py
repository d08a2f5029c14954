"""Formulas, scatters and scans with one axis more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensorad.batching.level import Level
from tensorad.errors import InternalError
from tensorad.ir.expr import (
    TRUE,
    Axis,
    Expr,
    Reduce,
    Size,
    axis,
    call,
    const,
    logical_and,
    reduce_expr,
    select,
)
from tensorad.ir.tensor import Compute, Dim, Op, Scan, Scatter, Update, dim_expr
from tensorad.ir.visit import substitute_all, with_fresh_fold

Images = dict[Expr, Expr]


def with_rows(op: Op, level: Level, row: Axis | None) -> Op:
    """The operation for all rows at once; without `row` for what stands in their place in each.

    Elements beyond what a row has of its own are 0 in formulas, what they start from in folds of
    several components, unspecified elsewhere.
    """
    match op:
        case Compute():
            return _compute(op, level, row)
        case Scatter():
            return _scatter(op, level, row)
        case Scan():
            return _scan(op, level, row)
    raise InternalError(f"{type(op).__name__} is no formula")


def _leading(row: Axis | None) -> tuple[Axis, ...]:
    return () if row is None else (row,)


def _fresh(axes: Sequence[Axis], level: Level, row: Axis | None, known: Images) -> Images:
    """`known`, and axes over the bounds that these have in a row, in the place of these; what all
    rows are stored with is a bound, too, which derivatives rest on."""
    found = dict(known)
    for a in axes:
        bounds = level.over((a.lower, a.upper, a.step), row)
        lower, upper, step = substitute_all(bounds, found)
        if row is not None and isinstance(a.upper, Size) and a.upper in level.each:
            upper = call("minimum", upper, level.most[a.upper])
        found[a] = axis(a.name, lower, upper, step)
    return found


def _axes(axes: Sequence[Axis], images: Images) -> tuple[Axis, ...]:
    found = [images[a] for a in axes]
    return tuple([a for a in found if isinstance(a, Axis)])


class _Formulas:
    """Expressions of one operation, for a row, over axes of their own."""

    def __init__(self, level: Level, row: Axis | None, images: Images) -> None:
        self.level, self.row, self.images = level, row, images
        self.renew = with_fresh_fold()

    def __call__(self, exprs: Sequence[Expr]) -> tuple[Expr, ...]:
        made = substitute_all(self.level.over(exprs, self.row), self.images)
        return tuple(map(self.renew, made))


def _compute(op: Compute, level: Level, row: Axis | None) -> Op:
    images: Images = {a: axis(a.name, 0, dim_expr(level.extent(n))) for a, n in _extents(op)}
    guard = _inside(_extents(op), images, level, row)
    bodies = _Formulas(level, row, images)(op.bodies)
    if guard is not TRUE:
        bodies = tuple([_guarded(b, guard, len(bodies) > 1) for b in bodies])
    return replace(op, axes=(*_leading(row), *_axes(op.axes, images)), bodies=bodies)


def _extents(op: Compute) -> list[tuple[Axis, Dim]]:
    return list(zip(op.axes, op.shape, strict=True))


def _guarded(body: Expr, guard: Expr, is_fold: bool) -> Expr:
    """A formula where the guard holds, 0 elsewhere; components of one fold stay such, and are what
    it starts from elsewhere."""
    if is_fold and isinstance(body, Reduce):
        condition = logical_and(guard, body.condition)
        return reduce_expr(body.combiner, body.sources, body.axes, condition, body.index)
    return select(guard, body, const(0, body.dtype))


def _scatter(op: Scatter, level: Level, row: Axis | None) -> Op:
    images = _fresh(op.axes, level, row, {})
    new = _Formulas(level, row, images)
    updates = []
    for u in op.updates:
        value, condition, *indices = new((u.value, u.condition, *u.indices))
        updates.append(Update((*_leading(row), *indices), value, condition))
    lead = () if row is None else (level.rows,)
    init = op.init
    if init is not None:
        init = level.of(init) if row is None else level.spread(init)
    return replace(
        op, shape=(*lead, *level.shape(op.shape)), updates=tuple(updates), init=init,
        axes=(*_leading(row), *_axes(op.axes, images)),
    )  # fmt: skip


def _scan(op: Scan, level: Level, row: Axis | None) -> Op:
    """A scan with a cell has its row among the steps, and in the cells, which have one too."""
    around = level.row() if row is not None and op.cell is not None else row
    images: Images = {a: axis(a.name, a.lower, dim_expr(level.extent(n))) for a, n in _rows_of(op)}
    guard = _inside(_rows_of(op), images, level, around)
    images = _fresh(op.along, level, row, images)
    new = _Formulas(level, row, images)
    start = _Formulas(level, around, images)(op.start)
    (condition,) = new((op.condition,))
    axes, along = (*_leading(around), *_axes(op.axes, images)), _axes(op.along, images)
    cell = op.cell
    if cell is None:
        condition = logical_and(guard, condition)
    else:
        cell, along = (*_leading(row), *new(cell)), (*_leading(row), *along)
    if guard is not TRUE:
        start = tuple([_guarded(e, guard, is_fold=False) for e in start])
    lead = () if row is None else (level.rows,)
    return replace(
        op, axes=axes, along=along, sources=new(op.sources), start=start, condition=condition,
        shape=(*lead, *level.shape(op.shape)), indices=(*_leading(row), *new(op.indices)),
        cell=cell,
    )  # fmt: skip


def _rows_of(op: Scan) -> list[tuple[Axis, Dim]]:
    return list(zip(op.axes, op.rows, strict=True))


def _inside(
    extents: Sequence[tuple[Axis, Dim]], images: Images, level: Level, row: Axis | None
) -> Expr:
    """Where axes are below the extents that a row has."""
    if row is None:
        return TRUE
    ragged = [(images[a], n) for a, n in extents if level.is_ragged(n)]
    return logical_and(*[a < level.over((dim_expr(n),), row)[0] for a, n in ragged])
