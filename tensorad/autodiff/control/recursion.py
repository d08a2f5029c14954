"""Both modes through functions that call themselves: definitions derived of definitions.

Of a definition f are made: one that returns, beside f's results, a record of what the derivative
reads of this call; and one from this record and adjoints of the results to adjoints of the params
(or from the record and tangents to tangents). The record of a call holds those of the calls in it.
Params that have one value in all calls (`passed_on`) are in no record: they are given once more.
The adjoints by these are sums over all calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from tensorad.autodiff.control.activity import active_inside, active_tensors
from tensorad.autodiff.control.heads import BlockVjp, Given, Seed, Sent, always
from tensorad.autodiff.control.pieces import with_dtype, zeros_like
from tensorad.autodiff.local.overrides import Rules
from tensorad.autodiff.local.records import check_no_batch, tangent_dtype
from tensorad.errors import GradError
from tensorad.ir.analysis.blocks import block_ops, inner_ops, ops_between
from tensorad.ir.analysis.passed_on import passed_on
from tensorad.ir.records import (
    Definition,
    Field,
    RecordType,
    Recursion,
    Variant,
    definitions_in,
    fields_of,
    inject,
    recursion,
    stand_ins,
)
from tensorad.ir.tensor import (
    Block,
    Constant,
    Control,
    FunctionCall,
    Saved,
    Shape,
    Tensor,
    outputs,
)
from tensorad.ir.visit import op_inputs
from tensorad.simplify.control.levels import Around, Saves, inner_first, values_of

Active = tuple[int, ...]
"""Numbers of params that derivatives are by."""
Block_ = TypeVar("Block_", bound=Callable[..., Any])
"""What differentiates a block, in one of both modes."""


Tangents = Mapping[Tensor, Tensor]
BlockJvp = Callable[[Tangents, Sequence[Tensor], Shape, Rules], Tangents]
"""(tangents of some params, tensors of the block, batch, rules) -> tangents of those that move."""


@dataclass(frozen=True)
class Moving:
    """What the tangents of an operation's outputs are made from.

    Attributes:
        tangents: (*batch, ...) of its operands.
        kept: what is wanted of its inside.
        read: tensors, outputs among them, that have their tangents used.
    """

    tangents: Tangents
    kept: Sequence[Saved]
    batch: Shape
    rules: Rules
    jvp: BlockJvp
    read: Collection[Tensor]


@dataclass(frozen=True)
class Derived:
    """A definition's derivative by the params `wanted`, in one of both modes.

    Attributes:
        saving: (params) -> (results, record of what the other one reads).
        linear: (record, params `shared`, adjoint of each smooth result) -> adjoints of the params;
            in forward mode (record, params `shared`, tangents of the params) -> the tangent of each
            smooth result.
    """

    saving: Definition
    linear: Definition
    wanted: Active
    shared: tuple[int, ...]


def recursion_adjoints(op: Recursion, given: Given) -> list[Sent]:
    """What operands receive from a call of a definition."""
    check_no_batch(op, given.batch)
    moving = [k for k, t in enumerate(op.operands) if t in given.active]
    found = _derived_call(op, _Reversed, tuple(moving), given.vjp, given.heads)
    heads = [
        given.heads[t].value if t in given.heads else zeros_like(t, ())
        for t in found.results
        if t.dtype.is_differentiable
    ]
    adjoints = recursion(found.by.linear, (*found.given(op), *heads), op.source, op.sizes)
    pairs = zip(found.by.wanted, adjoints, strict=True)
    return [Sent(op.operands[k], t, always) for k, t in pairs if k in moving]


def recursion_tangents(op: Recursion, given: Moving) -> dict[Tensor, Tensor]:
    """The tangents of a definition's results."""
    check_no_batch(op, given.batch)
    moving = [k for k, t in enumerate(op.operands) if t in given.tangents]
    found = _derived_call(op, _Pushed, tuple(moving), given.jvp, given.read)
    wanted = [op.operands[k] for k in found.by.wanted]
    along = [given.tangents[t] if t in given.tangents else zeros_like(t, ()) for t in wanted]
    tangents = recursion(found.by.linear, (*found.given(op), *along), op.source, op.sizes)
    smooth = [t for t in found.results if t.dtype.is_differentiable]
    return dict(zip(smooth, tangents, strict=True))


class _Call(NamedTuple):
    """A call that saves what its derivative reads."""

    by: Derived
    record: Tensor
    results: tuple[Tensor, ...]

    def given(self, op: Recursion) -> tuple[Tensor, ...]:
        """What the linear definition reads of the call."""
        return (self.record, *[op.operands[k] for k in self.by.shared])


def _derived_call(
    op: Recursion,
    mode: type[_Derivation[Block_]],
    moving: Active,
    differentiate: Block_,
    moved: Collection[Tensor],
) -> _Call:
    """The call itself, if it saves for this mode and nothing moves what it saves; or one that
    does."""
    made = outputs(op)
    found = op.definition.derived.get(("saves", mode))
    if isinstance(found, Derived) and set(moving) <= set(found.wanted) and made[-1] not in moved:
        return _Call(found, made[-1], made[:-1])
    found = derived(op.definition, mode, moving, differentiate)
    saving = recursion(found.saving, op.operands, op.source, op.sizes)
    return _Call(found, saving[-1], made)


def derived(
    definition: Definition,
    mode: type[_Derivation[Block_]],
    wanted: Active,
    differentiate: Block_,
) -> Derived:
    """The derivative of a definition; it is made when it is lowered or run."""
    key = (mode, wanted)
    if key not in definition.derived:
        made = mode(definition, wanted, differentiate).result
        definition.derived[key] = made
        made.saving.derived["saves", mode] = made
    result = definition.derived[key]
    assert isinstance(result, Derived), "this is what the key stands for"
    return result


@dataclass(frozen=True)
class _Made:
    """What a derivation finds: the results of both definitions, and the kinds of records."""

    saving: Sequence[Tensor]
    linear: Sequence[Tensor]
    variants: Sequence[Variant]


class _Derivation(ABC, Generic[Block_]):
    """A definition's derivative. `own` are the adjoints, or tangents, that it is given."""

    def __init__(self, definition: Definition, wanted: Active, differentiate: Block_) -> None:
        self.definition = definition
        self.wanted = wanted
        self.differentiate = differentiate
        name, types, params = definition.name, definition.types, definition.params
        self.record = RecordType(f"{name}.saved").later(lambda: self.made.variants)
        self.params = stand_ins([Field(p.name, p.shape, p.dtype) for p in params])
        self.smooth = [k for k, f in enumerate(types) if f.dtype.is_differentiable]
        saved, shared = Field("saved", (), self.record), passed_on(definition)
        again = [Field(p.name, p.shape, p.dtype) for p in [params[k] for k in shared]]
        by = [_moved(Field(p.name, p.shape, p.dtype)) for p in [params[k] for k in wanted]]
        of = [_moved(types[k]) for k in self.smooth]
        own, made = (of, by) if self.is_reverse else (by, of)
        self.given = stand_ins([saved, *again, *own])
        totals, sizes = definition.totals, definition.sizes
        saving = Definition(
            f"{name}_saving", self.params, (*types, saved), definition, totals, sizes, definition
        )
        linear = Definition(
            f"d{name}", self.given, made, totals=self.totals(shared), sizes=sizes, origin=definition
        )
        self.result = Derived(
            saving.later(lambda: self.made.saving, definition),
            linear.later(lambda: self.made.linear, definition),
            wanted,
            shared,
        )

    is_reverse: ClassVar[bool]

    @abstractmethod
    def totals(self, shared: Sequence[int]) -> list[int]:
        """Abstract: which results of the linear definition are sums over all calls."""

    @abstractmethod
    def moved(self, call: FunctionCall, own: Sequence[Tensor]) -> list[Tensor]:
        """Abstract: the adjoints or tangents of a call with the params, from those given."""

    @cached_property
    def made(self) -> _Made:
        """The derivation, once it is asked for."""
        call = self.call()
        again = 1 + len(self.result.shared)
        record, own = self.given[0], self.given[again:]
        moved = self.moved(call, own)
        shared = dict.fromkeys([self.params[k] for k in self.result.shared])
        read = _read_of(call, self.params, moved, own)
        needed = [t for t in read if t not in shared]
        fields = [Field(f"{t.name}_{n}", t.shape, t.dtype) for n, t in enumerate(needed)]
        variants = [Variant("saved", tuple(fields))]
        self.record.complete(variants)
        saving = (*outputs(call), inject(self.record, 0, needed))
        values = dict(zip(needed, fields_of(record, 0), strict=True))
        values |= dict(zip(shared, self.given[1:again], strict=True))
        return _Made(saving, self.opened({t: values[t] for t in read}, own, moved), variants)

    def call(self) -> FunctionCall:
        """What the definition does, the calls in it saving what their derivatives read."""
        block = self.definition.block
        calls = _active_calls(block, [block.params[k] for k in self.wanted])
        for d in calls:
            _check_order(self.definition, d)

        def saving(op: Control, saves: Saves, around: Around) -> Sequence[Tensor]:
            if not isinstance(op, Recursion) or op.definition not in calls:
                return values_of(op, saves)
            wanted = calls[op.definition]
            found = derived(op.definition, type(self), wanted, self.differentiate)
            return recursion(found.saving, op.operands, op.source, op.sizes)[:-1]

        results = inner_first(block.results, block.params, saving)
        names = tuple([f.name for f in self.definition.types])
        blocks = (Block(block.params, tuple(results)),)
        return FunctionCall(names, self.params, blocks, function=self.definition.name)

    def opened(
        self, values: Mapping[Tensor, Tensor], own: Sequence[Tensor], moved: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        """The adjoints or tangents, of the values that stand for what they read."""
        if not moved:
            return ()
        names = tuple([t.name for t in moved])
        block = Block((*values, *own), tuple(moved))
        name = f"d{self.definition.name}"
        return outputs(FunctionCall(names, (*values.values(), *own), (block,), function=name))


class _Reversed(_Derivation[BlockVjp]):
    """Reverse mode."""

    is_reverse = True

    def totals(self, shared: Sequence[int]) -> list[int]:
        """The adjoints by params that all calls have."""
        return [n for n, k in enumerate(self.wanted) if k in shared]

    def moved(self, call: FunctionCall, own: Sequence[Tensor]) -> list[Tensor]:
        """The adjoints of the params wanted."""
        results = outputs(call)
        seeds = [Seed(results[k], h) for k, h in zip(self.smooth, own, strict=True)]
        wrt = [self.params[k] for k in self.wanted]
        found = self.differentiate(seeds, wrt, (), {}).adjoints if wrt else ()
        pairs = zip(wrt, found, strict=True)
        return [zeros_like(p, ()) if t is None else with_dtype(t, p.dtype) for p, t in pairs]


class _Pushed(_Derivation[BlockJvp]):
    """Forward mode."""

    is_reverse = False

    def totals(self, shared: Sequence[int]) -> list[int]:
        """The tangents of results that are such sums."""
        return [n for n, k in enumerate(self.smooth) if k in self.definition.totals]

    def moved(self, call: FunctionCall, own: Sequence[Tensor]) -> list[Tensor]:
        """The tangents of the smooth results."""
        results = [outputs(call)[k] for k in self.smooth]
        given = dict(zip([self.params[k] for k in self.wanted], own, strict=True))
        found = self.differentiate(given, results, (), {})
        return [with_dtype(found[t], t.dtype) if t in found else zeros_like(t, ()) for t in results]


def _moved(f: Field) -> Field:
    """The derivative by a field."""
    return Field(f"d{f.name}", f.shape, tangent_dtype(f.dtype))


def _read_of(
    call: FunctionCall, params: Sequence[Tensor], made: Sequence[Tensor], own: Sequence[Tensor]
) -> list[Tensor]:
    """What tensors read of a call: its params, its results, and what is saved of it."""
    found: dict[Tensor, None] = {}
    seen = dict.fromkeys(own)
    ends = dict.fromkeys(params)
    stack = list(made)[::-1]
    while stack:
        t = stack.pop()
        if t in seen or isinstance(t.op, Constant):
            continue
        seen[t] = None
        of_call = t.op is call or (isinstance(t.op, Saved) and t.op.control is call)
        if of_call or t in ends:
            found[t] = None
        else:
            stack += reversed(op_inputs(t.op))
    return list(found)


def _check_order(definition: Definition, called: Definition) -> None:
    """What a definition calls is no higher derivative of it, nor of what calls it.

    Raises:
        GradError: it is, and derivatives of ever higher orders would be needed.
    """
    (root, order), (other, higher) = _order(definition), _order(called)
    if higher <= order or not _reaches(other, root):
        return
    raise GradError(
        f"{root.name} calls a derivative of {other.name}"
        f"{' itself' if other is root else ''}, whose derivative needs derivatives of "
        "ever higher orders: as many as calls are nested, which only data tell.",
        where=f"{called.name}, called by {definition.name}",
        hint="differentiate outside of the recursion; or let the number of calls be a static "
        "argument (static_argnames) that a Python if ends, so that each order is a function of its "
        "own.",
    )


def _order(d: Definition) -> tuple[Definition, int]:
    """What a definition is a derivative of, and of which order."""
    order = 0
    while d.origin is not None:
        d, order = d.origin, order + 1
    return d, order


def _reaches(start: Definition, wanted: Definition) -> bool:
    """Whether calls of a definition may come to another one, or a derivative of it."""
    seen: dict[Definition, None] = {}
    stack = [start]
    while stack:
        d, _ = _order(stack.pop())
        if d is wanted:
            return True
        if d not in seen:
            seen[d] = None
            ops = block_ops(d.block)
            stack += definitions_in([o for o in (*ops, *inner_ops(ops)) if isinstance(o, Control)])
    return False


def _active_calls(block: Block, start: Sequence[Tensor]) -> dict[Definition, Active]:
    """The definitions that a block calls with operands that depend on some of its params, with the
    numbers of these operands, of all such calls together."""
    found: dict[Definition, dict[int, None]] = {}
    stack = [(block.params, block.results, dict.fromkeys(start))]
    while stack:
        params, results, active = stack.pop()
        order = ops_between(results, dict.fromkeys(params))
        moving = active_tensors(order, active, {})
        for op in order:
            if isinstance(op, Recursion):
                own = [k for k, t in enumerate(op.operands) if t in moving]
                found.setdefault(op.definition, {}).update(dict.fromkeys(own))
            elif isinstance(op, Control):
                inside = active_inside(op, moving, {})
                for b, inner in zip(op.blocks, inside, strict=False):
                    stack.append((b.params, b.results, {p: None for p in b.params if p in inner}))
    return {d: tuple(sorted(own)) for d, own in found.items() if own}
