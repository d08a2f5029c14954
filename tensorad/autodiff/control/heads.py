"""Heads of reversed operations, and where data let them be other than 0, told if a pole asks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import NamedTuple, Protocol

from tensorad.autodiff.adjoints.adjoint import Adjoint, Target, store, variable, whole
from tensorad.autodiff.adjoints.contributions import Contribution
from tensorad.autodiff.adjoints.switched import collected, number, reached, switched_on
from tensorad.autodiff.control.pieces import with_dtype
from tensorad.autodiff.local.overrides import Rules
from tensorad.autodiff.local.records import added
from tensorad.ir.analysis.blocks import ops_between
from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.dtypes import BOOL
from tensorad.ir.expr import TRUE, Axis, Expr, add, logical_or, read
from tensorad.ir.records import RecordType
from tensorad.ir.tensor import Compute, Placeholder, Saved, Shape, Tensor, outputs
from tensorad.ir.visit import copy_bodies, op_inputs

Switch = Callable[[], "Tensor | None"]
"""Where an adjoint is on: a bool tensor of its shape; None: everywhere. Made when asked for."""


def always() -> None:
    """The switch of an adjoint that no data switch off."""
    return


@dataclass(frozen=True)
class Head:
    """An adjoint (*batch, ...) from outside of an operation."""

    value: Tensor
    on: Switch = always

    @staticmethod
    def of(adjoint: Adjoint, t: Tensor, batch: Shape) -> Head:
        """The adjoint of a tensor."""
        value = with_dtype(variable(adjoint, f"d{t.name}"), t.dtype)
        return Head(value, switch_of(adjoint, t, batch))


class Sent(NamedTuple):
    """A part of an operand's adjoint; `on` is that of all its parts."""

    operand: Tensor
    part: Tensor
    on: Switch
    begun: bool = False
    """Whether the part has been added to where `Given.starts` lets the sum begin."""


@dataclass(eq=False)
class Seed:
    """A tensor of a block with its head.

    Attributes:
        head: a param of the reversed block, and so is `on`: where the head is on, if that is told.
        is_asked: whether a pole has asked for that.
    """

    of: Tensor
    head: Tensor
    on: Tensor | None = None
    is_asked: bool = False

    def switch(self) -> Tensor | None:
        """What is told of the head; that it was asked for is remembered."""
        self.is_asked = True
        return self.on


@dataclass(frozen=True)
class BlockAdjoints:
    """The adjoints of tensors of a block.

    Attributes:
        adjoints: None: zero everywhere.
        switches: where these are on as far as data decide; `reached`: also as far as indices do.
        numbers: how many contributions reach each of their elements; None: none ever does.
        begun: the tensors whose adjoints have been added to where their sums begin.
    """

    adjoints: Sequence[Tensor | None]
    switches: Sequence[Switch] = ()
    reached: Sequence[Switch] = ()
    numbers: Sequence[Callable[[], Tensor | None]] = ()
    begun: Collection[Tensor] = ()

    @staticmethod
    def of(
        adjoints: Sequence[Tensor | None],
        sums: Sequence[Target | None],
        begun: Collection[Tensor] = (),
    ) -> BlockAdjoints:
        """Adjoints, and what has collected them."""
        reached = [switch_of_sum(s, by_indices=True) for s in sums]
        numbers = [partial(number, s) if s is not None else always for s in sums]
        return BlockAdjoints(adjoints, [switch_of_sum(s) for s in sums], reached, numbers, begun)


Starts = Mapping[Tensor, Tensor]
"""Tensors that operations use as they are, and where the sums of their adjoints begin."""


class BlockVjp(Protocol):
    """Reverse mode in a block."""

    def __call__(
        self,
        seeds: Sequence[Seed],
        wrt: Sequence[Tensor],
        batch: Shape,
        rules: Rules,
        starts: Starts = ...,
    ) -> BlockAdjoints:
        """The adjoints of some params; a start is used once, by an operation that can."""
        ...


@dataclass(frozen=True)
class Given:
    """What the adjoints of an operation's operands are made from.

    Attributes:
        active: tensors outside of the operation that derivatives flow to.
        heads: of its outputs, and of what is saved of it.
        starts: where the sums of adjoints of some operands may begin, in place of 0.
    """

    active: Mapping[Tensor, None]
    heads: Mapping[Tensor, Head]
    batch: Shape
    rules: Rules
    vjp: BlockVjp
    starts: Starts = field(default_factory=dict)

    def saved_heads(self, n: int) -> list[tuple[Tensor, Head]]:
        """(inner tensor of block n, head of what is saved of it)"""
        found = [(t.op, h) for t, h in self.heads.items() if isinstance(t.op, Saved)]
        return [(s.inner, h) for s, h in found if s.block == n]


def seed_adjoints(seeds: Sequence[Seed], batch: Shape) -> dict[Tensor, Adjoint]:
    """The adjoints that a sweep over a block starts from."""
    found: dict[Tensor, Adjoint] = {}
    made: dict[Tensor, list[Contribution]] = {}
    for s in seeds:
        if isinstance(s.of.dtype, RecordType):
            old = found.get(s.of)
            found[s.of] = whole(s.head if old is None else added(store(old, s.head.name), s.head))
            continue
        axes = compute_axes(s.head.shape)
        body: Expr = read(s.head, axes)
        body = add(found[s.of].at(axes), body) if s.of in found else body
        parts = made.setdefault(s.of, [])
        parts.append(_switched(Adjoint(axes, body), s.of, s.switch))
        found[s.of] = Adjoint(axes, body, sum_of=Target(_like(s.of), batch, parts))
    return found


def with_switch(adjoint: Adjoint, of: Tensor, batch: Shape, on: Switch) -> Adjoint:
    """An adjoint of a tensor that is 0 where it is not on; that of a record always is."""
    if isinstance(of.dtype, RecordType):
        return adjoint
    return replace(adjoint, sum_of=Target(_like(of), batch, [_switched(adjoint, of, on)]))


def _like(t: Tensor) -> Tensor:
    return outputs(Placeholder(t.name, t.shape, t.dtype))[0]


def _switched(adjoint: Adjoint, of: Tensor, on: Switch) -> Contribution:
    own = compute_axes(of.shape)

    def weight(batch: Sequence[Expr]) -> Expr:
        return adjoint.at((*batch, *own))

    def switch(batch: Sequence[Expr]) -> Expr:
        told = on()
        return TRUE if told is None else read(told, (*batch, *own))

    return Contribution(own, TRUE, own, weight, switch=switch)


@dataclass(eq=False)
class _Once:
    """A switch that is made once."""

    make: Switch

    @cached_property
    def made(self) -> Tensor | None:
        """None, too, is remembered."""
        return self.make()

    def __call__(self) -> Tensor | None:
        return self.made


def switch_of(adjoint: Adjoint, of: Tensor, batch: Shape) -> Switch:
    """Where the adjoint of a tensor is on."""

    def on() -> Tensor | None:
        axes = compute_axes((*batch, *of.shape))
        return _tensor(of, axes, switched_on(adjoint, axes))

    return _Once(on)


def switch_of_sum(target: Target | None, *, by_indices: bool = False) -> Switch:
    """Where what is collected in a tensor's adjoint is on."""
    if target is None:
        return always

    where = reached if by_indices else collected
    return _Once(lambda: _tensor(target.of, *where(target)))


def _tensor(of: Tensor, axes: tuple[Axis, ...], condition: Expr) -> Tensor | None:
    return None if condition is TRUE else switch_tensor(of, axes, condition)


def switch_tensor(of: Tensor, axes: tuple[Axis, ...], condition: Expr) -> Tensor:
    """A bool tensor."""
    fresh, bodies = copy_bodies(axes, (condition,))
    return outputs(Compute(f"d{of.name}.on", fresh, bodies))[0]


def switch_like(of: Tensor, batch: Shape) -> Tensor:
    """A placeholder for a switch of an adjoint."""
    return outputs(Placeholder(f"d{of.name}.on", (*batch, *of.shape), BOOL))[0]


def the_same(of: Tensor, batch: Shape, value: Expr) -> Tensor:
    """A switch that is the same everywhere."""
    return switch_tensor(of, compute_axes((*batch, *of.shape)), value)


def read_among(made: Sequence[Tensor], params: Collection[Tensor]) -> dict[Tensor, None]:
    """Those of some params that are read to make tensors of a block."""
    found = dict.fromkeys([t for op in ops_between(made, params) for t in op_inputs(op)])
    found.update(dict.fromkeys(made))
    return {p: None for p in params if p in found}


def where_some(p: Tensor, counts: Sequence[Tensor]) -> Tensor:
    """Where one of some numbers is not 0."""
    axes = compute_axes(counts[0].shape)
    return switch_tensor(p, axes, logical_or(*[read(t, axes) > 0 for t in counts]))
