"""Patterns and values straight from the integer sets: one pass over the entries, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorad import config
from tensorad.codegen.index_checks.insert import with_checks
from tensorad.codegen.loops.ir import Kernel, LoopProgram, Stmt, Store
from tensorad.codegen.lower import lower_program, single_units
from tensorad.codegen.runtime.arena import Array
from tensorad.compiled import CompiledFunction
from tensorad.ir.cached import cached_property
from tensorad.ir.dtypes import DType, to_dtype
from tensorad.ir.expr import Expr, cast, int_const
from tensorad.ir.tensor import Placeholder, Tensor, outputs
from tensorad.ir.visit import reads, substitute, with_fresh_reductions
from tensorad.simplify.sets.space import BudgetExceeded, budget
from tensorad.simplify.sets.visit_points import Point, Scanning, Test, scan_in_order
from tensorad.sparse.cells import (
    Cell,
    Grid,
    all_rows,
    cells_of,
    count_entries,
    count_terms,
    elements,
)
from tensorad.sparse.loops import Emitter, store
from tensorad.sparse.paths import Irregular, paths_to

MOST_POINTS = 600
"""Points written in the loops of one output; above, loops are not cut at borders."""
SCANNING = 20
"""Times the usual budget of integer sets that loops over all entries may cost."""
_LARGEST_INT32 = 2**31 - 1


@dataclass(eq=False)
class Rows:
    """The rows of one output: its cells, and the loops over their entries."""

    grid: Grid
    cells: list[Cell]
    counts: list[int]
    """Entries per cell."""
    values: list[Expr]
    """One formula per cell, over the grid's axes."""

    @classmethod
    def of(cls, y: Tensor, wrt: Sequence[Tensor], dtype: DType) -> Rows:
        """The rows of d y / d wrt, with values of the dtype.

        Raises:
            Irregular, BudgetExceeded: the entries are not solved by integer sets.
        """
        paths = paths_to(y, wrt)
        grid = Grid.over(y, wrt)
        cells = cells_of(grid, paths)
        return cls(grid, cells, count_entries(cells), [c.value(dtype) for c in cells])

    @property
    def nnz(self) -> int:
        """The number of entries."""
        return sum(self.counts)

    def terms(self) -> int:
        """How many products all values sum."""
        if any(p.piece.axes for c in self.cells for p in c.parts):
            return count_terms(self.grid, self.cells)
        return sum(n * len(c.parts) for c, n in zip(self.cells, self.counts, strict=True))

    @cached_property
    def tree(self) -> tuple[Scanning, ...]:
        """The loops over the rows (set 0) and the entries of all cells (sets 1, 2, ...)."""
        sets = [all_rows(self.grid), *[c.points for c in self.cells]]
        for separated in (len(self.grid.rows), 0):
            try:
                with budget(SCANNING * config.current().isl_operations):
                    tree = scan_in_order(sets, separated)
            except BudgetExceeded:
                continue
            if _points_in(tree) <= MOST_POINTS:
                return tree
        raise Irregular("isl found no short loops over the entries")


def _points_in(tree: Sequence[Scanning]) -> int:
    count, stack = 0, list(tree)
    while stack:
        s = stack.pop()
        if isinstance(s, Point):
            count += 1
        else:
            stack.extend((*s.then, *s.orelse) if isinstance(s, Test) else s.body)
    return count


class Direct:
    """A matrix whose pattern follows from the formulas alone."""

    def __init__(self, outputs_: Sequence[Tensor], wrt: Sequence[Tensor], dtype: DType) -> None:
        self.dtype = dtype
        self.wrt = tuple(wrt)
        self.outputs = tuple(outputs_)
        self.rows = [Rows.of(y, wrt, dtype) for y in outputs_]
        self.shape = elements(*outputs_), elements(*wrt)
        self.nnz = sum(r.nnz for r in self.rows)
        small = max(self.nnz, *self.shape) <= _LARGEST_INT32
        self.index_dtype: DType = to_dtype("int32" if small else "int64")
        self._pattern: tuple[Array, Array] | None = None

    def pattern(self) -> tuple[Array, Array]:
        """(indptr, indices), computed once; not to be written to."""
        if self._pattern is None:
            pointers, columns = self._structure()()
            for a in (pointers, columns):
                a.flags.writeable = False
            self._pattern = pointers, columns
        return self._pattern

    def _structure(self) -> CompiledFunction:
        """The loops that write where rows start and the column of every entry."""
        pointers = _argument("indptr", (self.shape[0] + 1,), self.index_dtype)
        columns = _argument("indices", (self.nnz,), self.index_dtype)
        body: list[Stmt] = []
        at, first_row = 0, 0
        for r in self.rows:
            body += _structure_loops(r, pointers, columns, at, first_row)
            at, first_row = at + r.nnz, first_row + elements(r.grid.y)
        body += store(pointers, int_const(self.shape[0]), cast(int_const(at), self.index_dtype))
        kernel = Kernel("pattern", tuple(body), (pointers, columns), ())
        program = LoopProgram((), (pointers, columns), (kernel,))
        return CompiledFunction([pointers, columns], program, "pattern")

    def fill(self, inputs: Sequence[Tensor]) -> CompiledFunction:
        """The values of all entries as a function of the inputs."""
        program = self.program(inputs)
        return CompiledFunction(list(program.outputs), program, "values")

    def program(self, inputs: Sequence[Tensor]) -> LoopProgram:
        """The loops that write the value of every entry, given the inputs."""
        data = _argument("data", (self.nnz,), self.dtype)
        body: list[Stmt] = []
        at = 0
        for r in self.rows:
            body += _value_loops(r, data, at)
            at += r.nnz
        values = [v for r in self.rows for v in r.values]
        used = tuple(dict.fromkeys(e.tensor for e in reads(*values)))
        checks = self._checks(inputs)
        needed = dict.fromkeys([*used, *[t for k in checks for t in k.reads]])
        given = dict.fromkeys(inputs)
        computed = [t for t in needed if t not in given and not t.is_constant]
        before = lower_program(computed, inputs).kernels if computed else ()
        kernel = Kernel("values", tuple(body), (data,), used)
        return LoopProgram(tuple(inputs), (data,), (*before, *checks, kernel))

    def _checks(self, inputs: Sequence[Tensor]) -> list[Kernel]:
        """Checks of the reads by data in the formulas the values come from."""
        units = with_checks(single_units(self.outputs, inputs))
        return list(dict.fromkeys(k for u in units for k in u.checks))


def _structure_loops(
    r: Rows, pointers: Tensor, columns: Tensor, at: int, first_row: int
) -> tuple[Stmt, ...]:
    dtype = columns.dtype

    def leaf(p: Point, position: Expr) -> tuple[Stmt, ...]:
        point: dict[Expr, Expr] = dict(zip(r.grid.axes, p.values, strict=True))
        if p.number == 0:
            row = emitter.fold(r.grid.flat_row(point) + first_row)
            return (Store((pointers,), (row,), (cast(position, dtype),)),)
        column = emitter.fold(r.grid.flat_column(r.cells[p.number - 1].x, point))
        return (Store((columns,), (position,), (cast(column, dtype),)),)

    emitter = Emitter(leaf, lambda p: int(p.number > 0))
    return emitter.run(r.tree, int_const(at))[0]


def _value_loops(r: Rows, data: Tensor, at: int) -> tuple[Stmt, ...]:
    def leaf(p: Point, position: Expr) -> tuple[Stmt, ...]:
        if p.number == 0:
            return ()
        point: dict[Expr, Expr] = dict(zip(r.grid.axes, p.values, strict=True))
        value = with_fresh_reductions(r.values[p.number - 1])
        return store(data, position, emitter.fold(substitute(value, point)))

    emitter = Emitter(leaf, lambda p: int(p.number > 0))
    return emitter.run(r.tree, int_const(at))[0]


def _argument(name: str, shape: tuple[int, ...], dtype: DType) -> Tensor:
    return outputs(Placeholder(name, shape, dtype))[0]
