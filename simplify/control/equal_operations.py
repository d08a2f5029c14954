"""Equal branches and loops on equal operands run once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tensorad.ir.analysis.alike import Key, Numbering, ends, form_of
from tensorad.ir.analysis.blocks import block_ops, op_sizes, ops_between, saves_of, tells_trips
from tensorad.ir.arrays.checkpoints import Checkpoint
from tensorad.ir.arrays.elementwise import copied_from
from tensorad.ir.expr import Expr
from tensorad.ir.records import Fields, Inject, Recursion
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
from tensorad.simplify.control.levels import Around, Given, Saves, at_one_level, values_of
from tensorad.simplify.formula.dataflow import over_inputs

_MOST_BYTES: Final = 1024
"""Of constants whose elements are compared; larger ones are equal to themselves."""


@dataclass(frozen=True)
class _Inside:
    """What is in a block, in order.

    Attributes:
        tensors: its params and those that its results are computed by.
        controls: its operations with blocks, and by block what is in these.
        counters: of the loops around.
    """

    counters: dict[Expr, None]
    tensors: list[Tensor]
    controls: dict[Control, list[_Inside]]


def share_operations(results: Sequence[Tensor], given: Sequence[Tensor]) -> list[Tensor]:
    """The results, where what follows an operation with blocks reads the first that is equal.

    A function and its gradient in one program have the function's loops twice, written down apart.
    Loops that tell how often they ran stay: shapes are made of what they tell.
    """
    known = dict.fromkeys(given)
    if sum([isinstance(op, Control) for op in ops_between(results, known)]) < 2:
        return list(results)
    values = _Values(known)
    first: dict[Key, tuple[Control, list[_Inside]]] = {}

    def once(op: Control, saves: Saves, around: Around) -> list[Tensor]:
        key, inside = _key(op, values)
        other, there = first.setdefault(key, (op, inside))
        if other is op:
            return values_of(op, saves)
        images = [_Image(*pair) for pair in zip(inside, there, strict=True)]
        found = [(n, images[n].of(t)) for n, t in saves]
        moved = [(n, t) for n, t in found if t is not None]
        return values_of(other, moved) if len(moved) == len(saves) else values_of(op, saves)

    return at_one_level(results, given, once)


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


class _Image:
    """Tensors of a block -> those of an equal one."""

    def __init__(self, here: _Inside, there: _Inside) -> None:
        self.here, self.there = here, there
        self.found = dict(zip(here.tensors, there.tensors, strict=True))
        self.controls = dict(zip(here.controls, there.controls, strict=True))
        self.inner: dict[tuple[Control, int], _Image] = {}

    def of(self, t: Tensor) -> Tensor | None:
        """What a tensor is there; None for one that more formulas of counters compute."""
        for op in ops_between([t], self.found):
            made = over_inputs(op, self.found)
            if isinstance(op, Saved) and op.control in self.controls:
                inner = self.inside(op.control, op.block).of(op.inner)
                if inner is None:
                    return None
                made = saved(self.controls[op.control], inner, op.block).op
            elif any(s in self.here.counters for s in op_sizes(op)):
                return None
            self.found.update(zip(outputs(op), outputs(made), strict=True))
        return self.found.get(t, t)

    def inside(self, op: Control, block: int) -> _Image:
        if (op, block) not in self.inner:
            other = self.there.controls[self.controls[op]]
            self.inner[op, block] = _Image(self.here.controls[op][block], other[block])
        return self.inner[op, block]


def _key(op: Control, values: _Values) -> tuple[Key, list[_Inside]]:
    """What tells an operation apart, and what is in its blocks."""
    numbering = _Blocks()
    own = op if _is_alone(op) else None
    operands = tuple([values.of(t) for t in op.inputs])
    inside = numbering.control(op, {})
    return numbering.key(own, operands), inside


def _beside_blocks(op: Control) -> Key:
    """What else operations do: those without blocks, and checkpoints."""
    match op:
        case Checkpoint():
            return (op.again, op.keeps)
        case Inject():
            return (op.dtype, op.tag)
        case Fields():
            return (op.tag,)
        case Recursion():
            return (op.definition,)
    return ()


def _is_alone(op: Control) -> bool:
    """Whether an operation is equal to itself alone."""
    return tells_trips(op) or (isinstance(op, FunctionCall) and op.rule is not None)


class _Blocks(Numbering):
    """The key of blocks: tensors in them by their place, counters by that of their loops."""

    def __init__(self) -> None:
        super().__init__(_known, named=False)
        self.sizes: dict[Expr, object] = {}
        self.defined = 0
        self.counters: dict[Expr, None] = {}

    def leaf(self, e: Expr) -> object:
        return self.sizes.get(e, e)

    def control(self, op: Control, kept: dict[Control, list[Saved]]) -> list[_Inside]:
        """Write down an operation without its operands.

        Args:
            kept: what is saved of operations of the block that it stands in.
        """
        self.parts.append((type(op), len(op.operands), len(op.names), len(op.blocks)))
        self.parts.append(_beside_blocks(op))
        if isinstance(op, Loop):
            (trips,) = self.expressions((op.trips,))
            self.parts.append((op.carries, op.scanned, op.reverse, trips, op.count is None))
            self.sizes[op.counter] = ("counter", len(self.sizes))
            self.counters[op.counter] = None
        if isinstance(op, Recursion):
            self.parts.append(self.expressions(op.sizes))
        if tells_trips(op):
            self.sizes[op.trips] = ("trips", len(self.sizes))
        found = [
            self.block(block, [s.inner for s in kept.get(op, ()) if s.block == n])
            for n, block in enumerate(op.blocks)
        ]
        if isinstance(op, Loop):
            del self.counters[op.counter]
        return found

    def block(self, block: Block, extra: Sequence[Tensor]) -> _Inside:
        found = _Inside(dict(self.counters), [*block.params], {})
        around = {p: self.numbered[p] for p in block.params if p in self.numbered}
        names, self.names = self.names, {}  # a tensor may be read as another one's param here
        self.define(block.params)
        ops = block_ops(block, extra)
        kept = saves_of(ops)
        for o in ops:
            if isinstance(o, (Constant, Placeholder)):
                continue
            if isinstance(o, Control):
                self.parts.append((o if _is_alone(o) else None, *self.tensors(o.inputs)))
                found.controls[o] = self.control(o, kept)
            else:
                self.formula(o)
            self.define(outputs(o))
            found.tensors.extend(outputs(o))
        self.parts.append((Block, *self.tensors(block.results)))
        self.numbered.update(around)
        self.names = names
        return found

    def formula(self, o: Op) -> None:
        if isinstance(o, (Compute, Scatter, Scan)):
            self.parts.append(ends(o, self))
        elif isinstance(o, Saved):
            self.parts.append((Saved, *self.tensors((outputs(o.control)[0], o.inner)), o.block))

    def define(self, tensors: Sequence[Tensor]) -> None:
        """Number tensors that come next, below those that are read from outside."""
        for t in tensors:
            self.defined += 1
            self.numbered[t] = -self.defined
            self.parts.append((t.dtype, *self.expressions([dim_expr(n) for n in t.shape])))


def _known(t: Tensor) -> object:
    return _constant(t) if isinstance(t.op, Constant) else t
