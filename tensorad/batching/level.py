"""What is known of a program while an axis is given to it: images of tensors and of sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tensorad.batching.dependence import Moving
from tensorad.ir.analysis.blocks import op_sizes
from tensorad.ir.arrays.elementwise import compute_axes, formula
from tensorad.ir.expr import Axis, Const, Expr, Read, Size, axis, const, read, select
from tensorad.ir.order import sizes_in
from tensorad.ir.tensor import Block, Compute, Control, Dim, Op, Shape, Tensor, dim_expr, dim_of
from tensorad.ir.visit import op_inputs, rewrite_all, substitute

Run = Callable[["Level", Sequence[Tensor]], None]


@dataclass
class Level:
    """The images of one block, or of what is outside of all, for so many rows.

    Attributes:
        rows: how many rows there are.
        run: gives images to tensors, and to all that they are computed from.
        image: tensors that differ from row to row -> all rows of them, (rows, *shape).
        plain: other tensors that have another one in their place, and those that stay: nothing
            behind them is looked at.
        most: sizes that have another one in their place; of a size that differs from row to row
            one that is as large as the largest, and that all rows are stored with.
        each: sizes that differ from row to row -> (rows,) their values.
        stacked: what iterations have saved: (iterations, rows, *shape) in place of `image`'s
            (rows, iterations, *shape).
        calls: blocks of functions with the axis, by block and params that have it; one for all
            levels.
        told: the number of rows as a tensor, where only the run tells it.
        lists: lists of some of the rows that were made; one for all levels.
        differing: what was found of operations (`Moving`); one for all levels.
    """

    rows: Dim
    run: Run
    image: dict[Tensor, Tensor] = field(default_factory=dict)
    plain: dict[Tensor, Tensor] = field(default_factory=dict)
    most: dict[Size, Expr] = field(default_factory=dict)
    each: dict[Size, Tensor] = field(default_factory=dict)
    stacked: dict[Tensor, Tensor] = field(default_factory=dict)
    calls: dict[object, tuple[Block, ...]] = field(default_factory=dict)
    told: Tensor | None = None
    differing: dict[object, Any] = field(default_factory=dict)
    lists: list[object] = field(default_factory=list)

    def empty(self, rows: Dim | None = None) -> Level:
        """A level of as many rows, or of others, without tensors, that knows the sizes which are
        the same for all."""
        count = self.rows if rows is None else rows
        told = self.told if rows is None else None
        return Level(
            count, self.run, most=dict(self.most), calls=self.calls, told=told,
            differing=self.differing, lists=self.lists,
        )  # fmt: skip

    def row(self) -> Axis:
        """A loop over the rows."""
        return axis("row", 0, dim_expr(self.rows))

    def of(self, t: Tensor) -> Tensor:
        """The tensor with the axis, if it differs from row to row; what it is, otherwise."""
        found = self.image.get(t)
        return self.plain.get(t, t) if found is None else found

    def spread(self, t: Tensor) -> Tensor:
        """All rows of a tensor, (rows, *shape), also of one that is the same in all."""
        found = self.image.get(t)
        if found is not None:
            return found
        own = self.plain.get(t, t)
        axes = compute_axes((self.rows, *own.shape))
        body = _element(own, axes[1:])
        if self.told is not None:  # comes after what tells how many rows there are
            body = select(axes[0] < read(self.told, ()), body, const(0, t.dtype))
        return formula(t.name, axes, body)

    def extent(self, n: Dim) -> Dim:
        """An extent that all rows are stored with."""
        return n if isinstance(n, int) else dim_of(substitute(n, self.renamed))

    def shape(self, shape: Shape) -> Shape:
        """A shape that all rows are stored with."""
        return tuple(map(self.extent, shape))

    @property
    def renamed(self) -> Mapping[Expr, Expr]:
        """`most`, as a substitution."""
        return {s: e for s, e in self.most.items() if s is not e}

    def over(self, exprs: Sequence[Expr], row: Axis | None) -> tuple[Expr, ...]:
        """Formulas of one row as those of `row`; None: none of them differs from row to row."""

        def renew(e: Expr) -> Expr | None:
            if isinstance(e, Read):
                if e.tensor in self.image:
                    assert row is not None, "a formula of the rows has an axis for them"
                    return read(self.image[e.tensor], (row, *e.indices))
                own = self.plain.get(e.tensor)
                return None if own is None else read(own, e.indices)
            if isinstance(e, Size):
                if e in self.each and row is not None:
                    return read(self.each[e], (row,))
                return self.most.get(e)
            return None

        return rewrite_all(exprs, renew)

    def differs(self, op: Op) -> bool:
        """Whether an operation differs from row to row, by what it reads or by its sizes."""
        read_of = op.inputs if isinstance(op, Control) else op_inputs(op)
        return any(t in self.image for t in read_of) or bool(self.used(op))

    def changes(self, op: Op) -> bool:
        """Whether an operation that is the same in all rows reads what others stand for."""
        own = any(self.plain.get(t, t) is not t for t in op_inputs(op))
        return own or any(s in self.most for s in op_sizes(op))

    def used(self, op: Op) -> list[Size]:
        """The sizes of an operation, blocks included, that differ from row to row."""
        return [s for s in op_sizes(op) if s in self.each]

    def is_ragged(self, n: Dim) -> bool:
        """Whether an extent differs from row to row."""
        return not isinstance(n, int) and any(s in self.each for s in sizes_in(n))

    def moving(self) -> Moving:
        """What differs from row to row."""
        return Moving(dict.fromkeys(self.image), dict.fromkeys(self.each), self.differing)


def _element(t: Tensor, indices: tuple[Axis, ...]) -> Expr:
    """An element of a tensor; of one that a number fills this number, so that it is not stored
    once before it is stored for each row."""
    body = t.op.bodies[t.index] if isinstance(t.op, Compute) else None
    return body if isinstance(body, Const) else read(t, indices)
