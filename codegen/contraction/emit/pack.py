"""Brings operands into the form a contraction's inner loops read: copies, windows and panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tensorad.codegen.directives import OPEN
from tensorad.codegen.loops.index_ranges import Ranges, among
from tensorad.codegen.loops.ir import For, If, Stmt
from tensorad.codegen.loops.scratch import buffer
from tensorad.codegen.nest.ir import Nest
from tensorad.codegen.schedule.emit import emit_nest
from tensorad.codegen.schedule.flatten import flattened
from tensorad.codegen.schedule.plan import plan_nest
from tensorad.codegen.splitting.nest_passes import (
    SIMPLIFY,
    SPLIT_CONDITIONS,
    Pieces,
    run_nest_passes,
)
from tensorad.ir.expr import (
    TRUE,
    ZERO,
    Axis,
    Const,
    Expr,
    Read,
    add,
    axis,
    call,
    int_const,
    logical_and,
    read,
    select,
    weak_const,
)
from tensorad.ir.tensor import Dim, Tensor, dim_expr
from tensorad.simplify.index.linear import Linear, linear_form


def fill(nest: Nest, threads: bool) -> tuple[Stmt, ...]:
    """The loops of an elementwise nest, cut where its conditions switch."""
    pieces = run_nest_passes((SIMPLIFY, SPLIT_CONDITIONS), Pieces(nest, (nest,)))
    body: list[Stmt] = []
    for part in pieces.parts:
        piece = flattened(part, OPEN)  # short axes side by side are a long one
        plan = plan_nest(piece)
        body.extend(emit_nest(piece, replace(plan, parallel=plan.parallel and threads)))
    return tuple(body)


@dataclass(frozen=True, eq=False)
class Emitted:
    """The loops of a contraction and the buffers they need beside the operands.

    `before` fills scratch by what the lanes' operand alone decides: once, where it stays the same.
    """

    body: tuple[Stmt, ...]
    copies: tuple[Tensor, ...] = ()
    scratch: tuple[Tensor, ...] = ()
    before: tuple[Stmt, ...] = ()


class Relaid:
    """A copy of a tensor with zeros around it and the dimensions of some axes innermost."""

    def __init__(self, value: Read, axes: Sequence[Axis], lanes: Sequence[Axis] = ()) -> None:
        ranges = Ranges(axes)
        self.value = value
        self.low: list[int] = []
        extents: list[Dim] = []
        for index, extent in zip(value.indices, value.tensor.shape, strict=True):
            low, high = ranges.of_linear(linear_form(index))
            self.low.append(int(low))
            known = isinstance(extent, int)
            extents.append(int(high) - int(low) + 1 if known else extent)
        self.order = dims_by_lanes(value, lanes)
        shape = [extents[d] for d in self.order]
        self.tensor = buffer(f"{value.tensor.name}.copy", shape, value.dtype)

    def read(self) -> Read:
        """The operand, read from the copy."""
        indices = [
            linear_form(i).plus(Linear({}, -low)).to_expr()
            for i, low in zip(self.value.indices, self.low, strict=True)
        ]
        return read(self.tensor, tuple([indices[d] for d in self.order]))

    def fill(self) -> tuple[Stmt, ...]:
        """The loops that make the copy."""
        axes = [axis(f"d{d}", 0, n) for d, n in zip(self.order, self.tensor.shape, strict=True)]
        places: dict[int, Expr] = {
            d: add(a, int_const(self.low[d])) for d, a in zip(self.order, axes, strict=True)
        }
        tests: list[Expr] = []
        for d, a in zip(self.order, axes, strict=True):
            extent = self.value.tensor.shape[d]
            if isinstance(extent, int):  # others are copied as they are
                tests.extend(outside_tests(places[d], extent, Ranges([a])))
        indices = tuple([places[d] for d in range(len(places))])
        element = padded(logical_and(*tests), read(self.value.tensor, indices))
        where = tuple(axes)
        return fill(Nest(where, (), (self.tensor,), where, (element,)), threads=True)


def dims_by_lanes(value: Read, lanes: Sequence[Axis]) -> list[int]:
    """The dimensions of an operand in order, but those of some axes innermost."""
    dims = list(range(len(value.indices)))
    forms = [linear_form(i).terms for i in value.indices]
    inner = [d for a in lanes for d in dims if a in forms[d]]
    return [d for d in dims if d not in inner] + inner


def outside_tests(index: Expr, extent: Dim, ranges: Ranges) -> list[Expr]:
    """The comparisons, of two, that do not hold everywhere."""
    low, high = ranges.of_linear(linear_form(index))
    tests: list[Expr] = []
    if low < 0:
        tests.append(call("ge", index, ZERO))
    if not isinstance(extent, int) or high >= extent:
        tests.append(call("lt", index, dim_expr(extent)))
    return tests


def padded(test: Expr, value: Expr) -> Expr:
    """The value where the test holds, 0 elsewhere."""
    return value if test is TRUE else select(test, value, weak_const(0, value.dtype))


class PaddedWindow:
    """The part of a tensor that one panel reads, with zeros outside the tensor.

    An index is a base, fixed for the panel, plus what varies inside it. Of the zeros after a
    row, `shared` are left out: those before the next row follow. The last dimensions are `longer`.
    The dimensions of `lanes` are innermost.
    """

    def __init__(
        self,
        value: Read,
        local: Mapping[Expr, Axis],
        outer: Ranges,
        shared: int = 0,
        longer: Sequence[int] = (),
        lanes: Sequence[Axis] = (),
    ) -> None:
        self.value = value
        self.ranges = outer
        self.order = dims_by_lanes(value, lanes)
        self.inside: list[Expr] = []
        self.base: list[Expr] = []
        ranges = Ranges(local.values())
        extents: list[int] = []
        for index in value.indices:
            form = linear_form(index)
            varying = Linear({local[t]: c for t, c in form.terms.items() if t in local}, 0)
            fixed = Linear({t: c for t, c in form.terms.items() if t not in local}, form.constant)
            low, high = ranges.of_linear(varying)
            self.inside.append(varying.plus(Linear({}, -int(low))).to_expr())
            self.base.append(fixed.plus(Linear({}, int(low))).to_expr())
            extents.append(int(high) - int(low) + 1)
        if shared:  # one more row has the zeros after the last one
            extents[-2:] = [extents[-2] + 1, extents[-1] - shared]
        for n, more in enumerate(longer, len(extents) - len(longer)):
            extents[n] += more
        shape = [extents[d] for d in self.order]
        self.tensor = buffer(f"{value.tensor.name}.window", shape, value.dtype)

    def read(self) -> Read:
        """The operand inside the panel, read from the window."""
        return read(self.tensor, tuple([self.inside[d] for d in self.order]))

    def fill(self) -> tuple[Stmt, ...]:
        """The loops that copy the window."""
        axes = [axis(f"w{d}", 0, n) for d, n in zip(self.order, self.tensor.shape, strict=True)]
        tests: list[Expr] = []
        loops: list[tuple[Axis, Expr]] = []
        places = list(self.base)
        for d, a in zip(self.order, axes, strict=True):
            base, extent = self.base[d], self.value.tensor.shape[d]
            place = places[d] = add(base, a)
            ranges = Ranges([a], self.ranges.memo)
            found = outside_tests(place, extent, ranges)
            if isinstance(base, Const):
                tests.extend(found)
            elif found:
                loops.append((a, logical_and(*found)))
        moved = dict.fromkeys([a for a, _ in loops])
        rest = [a for a in axes if a not in moved]
        element = padded(logical_and(*tests), read(self.value.tensor, tuple(places)))
        body = fill(Nest(tuple(rest), (), (self.tensor,), tuple(axes), (element,)), threads=False)
        for a, test in reversed(loops):
            body = (For(a, (If(test, body, self.zeros(axes, rest)),)),)
            rest.append(a)
        return body

    def zeros(self, axes: Sequence[Axis], free: Sequence[Axis]) -> tuple[Stmt, ...]:
        """The loops that clear the window along the free axes."""
        fresh = {a: axis(a.name, a.lower, a.upper) for a in axes if among(a, free)}
        where = tuple([fresh.get(a, a) for a in axes])
        zero = weak_const(0, self.value.dtype)
        nest = Nest(tuple(fresh.values()), (), (self.tensor,), where, (zero,))
        return fill(nest, threads=False)
