"""Equal branches and loops on equal operands run once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from tensorad.ir.analysis.alike import Key, Numbering, ends, form_of
from tensorad.ir.analysis.blocks import block_ops, ops_between, saves_of, tells_trips
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import (
    Block,
    Compute,
    Constant,
    Control,
    FunctionCall,
    Loop,
    Op,
    Placeholder,
    Saved,
    Scan,
    Scatter,
    Tensor,
    dim_expr,
    outputs,
    saved,
)
from tensorad.ir.visit import op_inputs
from tensorad.simplify.control.levels import Given, in_place_of
from tensorad.simplify.control.renew import copied_from
from tensorad.simplify.formula.dataflow import over_inputs

_MOST_BYTES: Final = 1024
"""Of constants whose elements are compared; larger ones are equal to themselves."""
Inside = list[list[Tensor]]
"""By block, its params and the tensors its results are computed by, in order."""


def share_operations(results: Sequence[Tensor], given: Sequence[Tensor]) -> list[Tensor]:
    """The results, where what follows an operation with blocks reads the first that is equal.

    A function and its gradient in one program have the function's loops twice, written down apart.
    Loops that tell how often they ran stay: shapes are made of what they tell.
    """
    known = dict.fromkeys(given)
    ops = ops_between(results, known)
    if sum([isinstance(op, Control) for op in ops]) < 2:
        return list(results)
    kept = saves_of(ops)
    image: dict[Tensor, Tensor] = {}
    values = _Values(known)
    first: dict[Key, tuple[Control, Inside]] = {}
    for op in ops:
        if isinstance(op, Saved):
            continue
        new = over_inputs(op, image)
        old, made = [*outputs(op)], [*outputs(new)]
        if isinstance(op, Control) and isinstance(new, Control):
            saves = kept.get(op, [])
            old += [outputs(s)[0] for s in saves]
            key, inside = _key(new, values)
            other, there = first.setdefault(key, (new, inside))
            made = [*outputs(other)]
            for s in saves:
                places = dict(zip(inside[s.block], there[s.block], strict=True))
                (inner,) = [s.inner] if other is new else in_place_of([s.inner], places)
                made.append(saved(other, inner, s.block))
        image.update(
            {a: b for a, b in zip(old, made, strict=True) if a is not b and a not in known}
        )
    return [image.get(t, t) for t in results]


class _Values:
    """Numbers of the values of one level: equal formulas of equal tensors have one, and copies."""

    def __init__(self, given: Given) -> None:
        self.given = given
        self.numbers: dict[Tensor, int] = {}
        self.known: dict[Key, int] = {}

    def of(self, t: Tensor) -> int:
        stack = [t]
        while stack:
            u = stack[-1]
            if u in self.numbers:
                stack.pop()
                continue
            formula = u not in self.given and isinstance(u.op, (Compute, Scatter, Scan))
            inputs = op_inputs(u.op) if formula else ()
            missing = [x for x in inputs if x not in self.numbers]
            if missing:
                stack += missing
                continue
            source = copied_from(u) if formula else None
            if source is None:
                self.numbers[u] = self.known.setdefault(self.key(u), len(self.known))
            else:
                self.numbers[u] = self.numbers[source]
        return self.numbers[t]

    def key(self, t: Tensor) -> Key:
        if isinstance(t.op, Constant):
            return _constant(t)
        if t in self.given or not isinstance(t.op, (Compute, Scatter, Scan)):
            return (t,)
        form, read = form_of(t.op)
        return (form, t.index, *[self.numbers[x] for x in read])


def _constant(t: Tensor) -> Key:
    assert isinstance(t.op, Constant)
    array = t.op.array
    if array.nbytes > _MOST_BYTES:
        return (t,)
    return (Constant, t.dtype, array.shape, array.tobytes())


def _key(op: Control, values: _Values) -> tuple[Key, Inside]:
    """What tells an operation apart, and the tensors of its blocks."""
    numbering = _Inside()
    own = op if _is_alone(op) else None
    operands = tuple([values.of(t) for t in op.inputs])
    inside = numbering.control(op, {})
    return numbering.key(own, operands), inside


def _is_alone(op: Control) -> bool:
    """Whether an operation is equal to itself alone."""
    return tells_trips(op) or (isinstance(op, FunctionCall) and op.rule is not None)


class _Inside(Numbering):
    """The key of blocks: tensors in them by their place, counters by that of their loops."""

    def __init__(self) -> None:
        super().__init__(_known, named=False)
        self.sizes: dict[Expr, object] = {}
        self.defined = 0

    def leaf(self, e: Expr) -> object:
        return self.sizes.get(e, e)

    def control(self, op: Control, kept: dict[Control, list[Saved]]) -> Inside:
        """Write down an operation without its operands.

        Args:
            kept: what is saved of operations of the block that it stands in.
        """
        self.parts.append((type(op), len(op.operands), len(op.names), len(op.blocks)))
        if isinstance(op, Loop):
            (trips,) = self.expressions((op.trips,))
            self.parts.append((op.carries, op.scanned, op.reverse, trips, op.count is None))
            self.sizes[op.counter] = ("counter", len(self.sizes))
        if tells_trips(op):
            self.sizes[op.trips] = ("trips", len(self.sizes))
        return [
            self.block(block, [s.inner for s in kept.get(op, ()) if s.block == n])
            for n, block in enumerate(op.blocks)
        ]

    def block(self, block: Block, extra: Sequence[Tensor]) -> list[Tensor]:
        found = [*block.params]
        around = {p: self.numbered[p] for p in found if p in self.numbered}
        self.define(found)
        ops = block_ops(block, extra)
        kept = saves_of(ops)
        for o in ops:
            if isinstance(o, (Constant, Placeholder)):
                continue
            self.operation(o, kept)
            self.define(outputs(o))
            found += outputs(o)
        self.parts.append((Block, *self.tensors(block.results)))
        self.numbered.update(around)
        return found

    def operation(self, o: Op, kept: dict[Control, list[Saved]]) -> None:
        if isinstance(o, (Compute, Scatter, Scan)):
            self.parts.append(ends(o, self))
        elif isinstance(o, Saved):
            self.parts.append((Saved, *self.tensors((outputs(o.control)[0], o.inner)), o.block))
        elif isinstance(o, Control):
            self.parts.append((o if _is_alone(o) else None, *self.tensors(o.inputs)))
            self.control(o, kept)

    def define(self, tensors: Sequence[Tensor]) -> None:
        """Number tensors that come next, below those that are read from outside."""
        for t in tensors:
            self.defined += 1
            self.numbered[t] = -self.defined
            self.parts.append((t.dtype, *self.expressions([dim_expr(n) for n in t.shape])))


def _known(t: Tensor) -> object:
    return _constant(t) if isinstance(t.op, Constant) else t
