"""Cells of a Jacobian: disjoint integer sets of (row, column), each with one formula."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tensorad import config
from tensorad.errors import InternalError
from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.combiner import row_major_position, sum_combiner
from tensorad.ir.expr import (
    TRUE,
    Axis,
    Expr,
    add,
    axis,
    int_const,
    logical_and,
    reduce_expr,
    summed,
)
from tensorad.ir.tensor import Tensor, dim_expr
from tensorad.ir.visit import fresh_axes, substitute
from tensorad.simplify.domain.solution import Piece
from tensorad.simplify.index.quasi_affine import axis_conditions, is_affine
from tensorad.simplify.sets.integer_set import IntegerSet
from tensorad.simplify.sets.space import Space, budget
from tensorad.simplify.sets.visit_points import are_disjoint, count_points, subtract
from tensorad.simplify.zeros.eliminate import eliminate
from tensorad.sparse.paths import Irregular, Path

CELLS_BUDGET = 20
"""Times the usual budget of integer sets that all cells of one output may cost."""
MOST_CELLS = 150
"""Cells of one output; beyond that columns are compressed instead."""


@dataclass(frozen=True, eq=False)
class Grid:
    """The index space of the entries in the rows of one output.

    Several inputs stand side by side: `block` says which one, and the column axes are wide
    enough for all of them (the last ones are 0 where an input has fewer axes).
    """

    y: Tensor
    wrt: tuple[Tensor, ...]
    rows: tuple[Axis, ...]
    block: tuple[Axis, ...]
    columns: tuple[Axis, ...]

    @classmethod
    def over(cls, y: Tensor, wrt: Sequence[Tensor]) -> Grid:
        """The grid of d y / d wrt; all extents are numbers."""
        ndim = max(x.ndim for x in wrt)
        shapes = [(*extents(x), *([1] * (ndim - x.ndim))) for x in wrt]
        widest = tuple([max(s[d] for s in shapes) for d in range(ndim)])
        alone = len(wrt) == 1 and ndim > 0
        block = () if alone else (axis("block", 0, len(wrt)),)
        names = tuple([f"x{d}" for d in range(ndim)])
        columns = compute_axes(widest, names)
        return cls(y, tuple(wrt), compute_axes(y.shape), block, columns)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Rows first: the lexicographic order of the axes is the order of the entries."""
        return (*self.rows, *self.block, *self.columns)

    def at(self, p: Path) -> tuple[Path, Expr]:
        """The path over this grid's rows, and the condition that a column is its column."""
        mapping = fresh_axes(p.axes, dict(zip(p.rows, self.rows, strict=True)))
        axes = tuple([a for a in (mapping[b] for b in p.axes) if isinstance(a, Axis)])
        indices = tuple([substitute(c, mapping) for c in p.columns])
        condition = substitute(p.condition, mapping)
        value = substitute(p.coefficient, mapping)
        moved = Path(p.x, self.rows, axes, condition, indices, value)
        padded = (*indices, *([int_const(0)] * (len(self.columns) - len(indices))))
        here = [c == i for c, i in zip(self.columns, padded, strict=True)]
        here += [b == self.block_of(p.x) for b in self.block]
        return moved, logical_and(condition, *here)

    def block_of(self, x: Tensor) -> int:
        """The position of an input."""
        return next(n for n, t in enumerate(self.wrt) if t is x)

    def flat_row(self, point: Mapping[Expr, Expr]) -> Expr:
        """The row-major number of a row."""
        return row_major_position([point[a] for a in self.rows], [*map(dim_expr, self.y.shape)])

    def flat_column(self, x: Tensor, point: Mapping[Expr, Expr]) -> Expr:
        """The number of a column: row-major in x, after the inputs before it."""
        before = elements(*self.wrt[: self.block_of(x)])
        own = [point[a] for a in self.columns[: x.ndim]]
        return add(row_major_position(own, [*map(dim_expr, x.shape)]), int_const(before))


def extents(t: Tensor) -> tuple[int, ...]:
    """The shape of a tensor without symbolic sizes."""
    found = tuple([n for n in t.shape if isinstance(n, int)])
    if len(found) < t.ndim:
        raise InternalError(f"{t.name} still has a symbolic shape")
    return found


def elements(*tensors: Tensor) -> int:
    """How many elements tensors without symbolic sizes have together."""
    return sum(prod(extents(t)) for t in tensors)


@dataclass(frozen=True, eq=False)
class Part:
    """The points of one path in a part of the grid: one, or some loops of them."""

    path: Path
    piece: Piece
    points: IntegerSet

    def value(self) -> Expr:
        """The sum of the coefficients over the grid's axes, where the part is."""
        value = substitute(self.path.coefficient, self.piece.values)
        if not self.piece.axes:
            return value
        combiner = sum_combiner(value.dtype)
        return reduce_expr(combiner, (value,), self.piece.axes, self.piece.residual)


@dataclass(frozen=True, eq=False)
class Cell:
    """Entries that the same parts contribute to."""

    points: IntegerSet
    parts: tuple[Part, ...]

    @property
    def x(self) -> Tensor:
        """The input all its columns belong to."""
        return self.parts[0].path.x

    def value(self, dtype: object) -> Expr:
        """The entry as a formula over the grid's axes."""
        total = summed(p.value().astype(dtype) for p in self.parts)
        assert total is not None  # a cell has at least one part
        return total


def cells_of(grid: Grid, paths: Sequence[Path]) -> list[Cell]:
    """Disjoint cells whose union is the pattern.

    Raises:
        Irregular: isl cannot solve a path, or the cells are too many.
        BudgetExceeded: isl gave up.
    """
    parts = [q for p in paths for q in _parts(grid, p)]
    with budget(CELLS_BUDGET * config.current().isl_operations):
        return [c for x in grid.wrt for c in _disjoint([p for p in parts if p.path.x is x])]


def _parts(grid: Grid, path: Path) -> list[Part]:
    moved, condition = grid.at(path)
    solution = eliminate(grid.axes, moved.axes, condition)
    if not solution.exact:
        raise Irregular(f"the columns {', '.join(map(str, path.columns))} are not solved")
    found = []
    for piece in solution.pieces:
        space = Space((), (*grid.axes, *piece.axes))
        bounds = [axis_conditions(a) for a in (*grid.axes, *piece.axes)]
        conditions = [*bounds, piece.guard, piece.residual]
        if not all(is_affine(c, space.dims) for c in conditions):
            raise Irregular(f"the columns {', '.join(map(str, path.columns))} are not affine")
        with budget():
            points = IntegerSet.of(space, *conditions).restrict_to(grid.axes)
            if not points.is_empty():
                found.append(Part(moved, piece, points))
    return found


def _disjoint(parts: Sequence[Part]) -> list[Cell]:
    cells: list[Cell] = []
    for part in parts:
        rest = part.points
        after: list[Cell] = []
        for c in cells:
            if are_disjoint(c.points, rest):
                after.append(c)
                continue
            after.append(Cell(c.points.intersect(rest), (*c.parts, part)))
            alone = subtract(c.points, rest)
            if not alone.is_empty():
                after.append(Cell(alone, c.parts))
            rest = subtract(rest, c.points)
        if not rest.is_empty():
            after.append(Cell(rest, (part,)))
        cells = after
        if len(cells) > MOST_CELLS:
            raise Irregular(f"its entries are sums of {len(cells)} kinds and more")
    return cells


def count_entries(cells: Sequence[Cell]) -> list[int]:
    """How many entries each cell has.

    Raises:
        BudgetExceeded: isl gave up.
    """
    with budget(CELLS_BUDGET * config.current().isl_operations):
        return [count_points(c.points) for c in cells]


def count_terms(grid: Grid, cells: Sequence[Cell]) -> int:
    """How many products the entries sum, all together."""
    parts = {id(p): p for c in cells for p in c.parts}
    total = 0
    for p in parts.values():
        if not p.piece.axes:
            total += count_points(p.points)
            continue
        space = Space((), (*grid.axes, *p.piece.axes))
        conditions = [axis_conditions(a) for a in space.dims]
        with budget(CELLS_BUDGET * config.current().isl_operations):
            points = IntegerSet.of(space, *conditions, p.piece.guard, p.piece.residual)
            total += count_points(points.simplify())
    return total


def all_rows(grid: Grid) -> IntegerSet:
    """One point per row, before all of its columns."""
    space = Space((), grid.axes)
    first = [*grid.block, *grid.columns]
    conditions = [axis_conditions(a) for a in grid.rows]
    return IntegerSet.of(space, TRUE, *conditions, *[a == -1 for a in first])
