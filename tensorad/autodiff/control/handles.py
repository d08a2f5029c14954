"""Both modes through formulas of handles: records that are taken from arrays, chosen by element."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tensorad.autodiff.control.heads import Given, Sent, always
from tensorad.autodiff.local.records import added, check_no_batch, nothing
from tensorad.errors import GradError
from tensorad.ir.arrays.elementwise import compute_axes, formula
from tensorad.ir.expr import (
    ONE,
    TRUE,
    Axis,
    Expr,
    Read,
    Select,
    call,
    floordiv,
    local_size,
    logical_and,
    logical_not,
    mod,
    mul,
    read,
    select,
)
from tensorad.ir.records import Field, is_record, stand_ins
from tensorad.ir.tensor import Block, Compute, Loop, Op, Shape, Tensor, outputs
from tensorad.ir.visit import reads, rewrite, rewrite_all, substitute_all


def moves_handles(op: Op) -> bool:
    """Whether it is a formula of handles."""
    return isinstance(op, Compute) and is_record(op.bodies[0].dtype)


def handle_tangents(
    op: Compute, tangents: Mapping[Tensor, Tensor], batch: Shape
) -> dict[Tensor, Tensor]:
    """The tangents of the outputs: chosen as the records are."""
    check_no_batch(op, batch)

    def renew(e: Expr) -> Expr | None:
        if not isinstance(e, Read) or not is_record(e.dtype):
            return None
        if e.tensor in tangents:
            return read(tangents[e.tensor], e.indices)
        return read(nothing(f"d{e.tensor.name}", (), e.dtype), ())

    pairs = zip(outputs(op), op.bodies, strict=True)
    return {t: formula(f"d{t.name}", op.axes, rewrite(e, renew), op.source) for t, e in pairs}


def handle_adjoints(op: Compute, given: Given) -> list[Sent]:
    """What arrays of records receive: the adjoint of each element is added where it is from."""
    check_no_batch(op, given.batch)
    found: dict[Tensor, Tensor] = {}
    for t, body in zip(outputs(op), op.bodies, strict=True):
        for taken in _all_taken(body) if t in given.heads else ():
            source = taken.read.tensor
            if source in given.active:
                zero = nothing(f"d{source.name}", source.shape, source.dtype)
                found[source] = _added(op, taken, given.heads[t].value, found.get(source, zero))
    return [Sent(t, d, always) for t, d in found.items()]


@dataclass(frozen=True)
class _Taken:
    """An element that a formula takes from an array, and where it does."""

    condition: Expr
    read: Read


def _all_taken(body: Expr) -> Iterator[_Taken]:
    stack: list[tuple[Expr, Expr]] = [(TRUE, body)]
    while stack:
        condition, e = stack.pop()
        if isinstance(e, Read):
            yield _Taken(condition, e)
        elif isinstance(e, Select):
            stack.append((logical_and(condition, e.cond), e.then))
            stack.append((logical_and(condition, logical_not(e.cond)), e.orelse))
        else:
            raise GradError(
                "a formula of values of a data type has no derivative: it does more than choose.",
                where=str(e),
                hint="index with values, and choose by select.",
            )


def _added(op: Compute, taken: _Taken, head: Tensor, start: Tensor) -> Tensor:
    """`start`, to which each element of the head is added where it is from, in one loop."""
    own = dict.fromkeys([head, *[r.tensor for r in reads(taken.condition, *taken.read.indices)]])
    params = stand_ins([Field(t.name, t.shape, t.dtype) for t in (start, *own)])
    so_far, inside = params[0], dict(zip(own, params[1:], strict=True))
    total: Expr = ONE
    for a in op.axes:
        total = mul(total, a.upper)
    counter = local_size("element", total)
    places: dict[Expr, Expr] = dict(zip(op.axes, _places(op.axes, counter), strict=True))

    def renew(e: Expr) -> Expr | None:
        return read(inside[e.tensor], e.indices) if isinstance(e, Read) else None

    condition, *where = rewrite_all(
        substitute_all((taken.condition, *taken.read.indices), places), renew
    )
    one = formula("head", (), read(inside[head], tuple(places.values())), "")
    before = formula("before", (), read(so_far, tuple(where)), "")
    axes = compute_axes(start.shape)
    there = logical_and(condition, *[call("eq", a, i) for a, i in zip(axes, where, strict=True)])
    more = read(added(before, one), ())
    result = formula(start.name, axes, select(there, more, read(so_far, axes)), "")
    loop = Loop(
        (start.name,), (start, *own), (Block(params, (result,)),), source=op.source,
        counter=counter, trips=total, carries=1,
    )  # fmt: skip
    return outputs(loop)[0]


def _places(axes: Sequence[Axis], counter: Expr) -> list[Expr]:
    """The values of axes at a point of a loop over all of them."""
    found: list[Expr] = []
    for a in axes[::-1]:
        found.append(mod(counter, a.upper))
        counter = floordiv(counter, a.upper)
    return found[::-1]
