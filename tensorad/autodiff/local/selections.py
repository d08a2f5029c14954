"""Combiners whose results always are one of their operands: where the result comes from.

Beside each value such a fold carries its origin: the number of the element (and of its
component) it was taken from, -1 for the identity. An operand equal to the identity takes its
place, since the identity is no operand.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorad.ir.combiner import Combiner, beats, per_combiner
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import (
    Call,
    Const,
    Expr,
    Param,
    Select,
    add,
    call,
    const,
    int_const,
    logical_and,
    logical_or,
    mul,
    param,
    select,
)
from tensorad.ir.visit import postorder

_NOWHERE = int_const(-1)


@dataclass(frozen=True, eq=False)
class Selection:
    """A combiner with origins.

    Attributes:
        combiner: the values' components, then an origin for each of `traced`.
        traced: the components that are selected, in order.
        groups: the traced components, together where values pass from one to another.
    """

    combiner: Combiner
    traced: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]

    def origin(self, component: int) -> int:
        """The component of `combiner` that is the origin of a traced one."""
        return self.combiner.arity - len(self.traced) + self.traced.index(component)

    def group(self, component: int) -> tuple[int, ...]:
        """The traced components between which values may pass, that one included."""
        return next(g for g in self.groups if component in g)

    def marks(self, position: Expr) -> list[Expr]:
        """The origin of each traced component's element at a position."""
        made: list[Expr] = []
        for c in self.traced:
            group = self.group(c)
            scaled = mul(position, int_const(len(group)))
            made.append(add(scaled, int_const(group.index(c))))
        return made


@per_combiner
def selection(combiner: Combiner) -> Selection | None:
    """The combiner with the origins of those float components that only select; None if none."""
    traced = selected_components(combiner)
    if not traced:
        return None
    tracer = _Tracer(combiner, traced)
    values = list(combiner.results)
    origins: list[Expr] = []
    for c in traced:
        values[c], origin = tracer.trace(combiner.results[c])
        origins.append(origin)
    identity = (*combiner.identity, *[const(-1, INT64) for _ in traced])
    made = Combiner(
        f"{combiner.name} with position",
        (*combiner.lhs, *tracer.state.values()),
        (*combiner.rhs, *tracer.element.values()),
        (*values, *origins),
        identity,
        combiner.associative,
    )
    return Selection(made, traced, _groups(combiner, traced))


@per_combiner
def selected_components(combiner: Combiner) -> tuple[int, ...]:
    """The float components that are always one of the float operands of their own kind.

    A component counts only if those it may be taken from count as well.
    """
    number: dict[Expr, int] = {p: n for n, p in enumerate(combiner.lhs)}
    number.update({p: n for n, p in enumerate(combiner.rhs)})
    found = {c: _leaves(r) for c, r in enumerate(combiner.results) if r.dtype.is_float}
    chosen = {c: leaves for c, leaves in found.items() if leaves is not None}
    while True:
        lost = [
            c
            for c, leaves in chosen.items()
            if any(isinstance(e, Param) and number[e] not in chosen for e in leaves)
        ]
        if not lost:
            return tuple(chosen)
        for c in lost:
            del chosen[c]


def _groups(combiner: Combiner, traced: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The traced components, together where one may be taken from the other."""
    number = {p: n for side in (combiner.lhs, combiner.rhs) for n, p in enumerate(side)}
    leader = {c: c for c in traced}
    for c in traced:
        taken = [number[e] for e in _leaves(combiner.results[c]) or () if isinstance(e, Param)]
        merged = {leader[d] for d in (c, *taken)}
        leader = {d: min(merged) if leader[d] in merged else leader[d] for d in traced}
    return tuple([tuple([c for c in traced if leader[c] == g]) for g in sorted({*leader.values()})])


def _leaves(root: Expr) -> list[Expr] | None:
    """Parameters and constants a tree of choices ends in; None if it computes anything."""
    leaves: dict[Expr, None] = {}
    done: dict[Expr, None] = {}
    stack = [root]
    while stack:
        e = stack.pop()
        if e in done:
            continue
        done[e] = None
        match e:
            case Param() | Const():
                leaves[e] = None
            case Call(op="maximum" | "minimum", args=args):
                stack.extend(args)
            case Select(then=a, orelse=b):
                stack.extend((a, b))
            case _:
                return None
    return list(leaves)


class _Tracer:
    """Follows the choices of one combiner."""

    def __init__(self, combiner: Combiner, traced: tuple[int, ...]) -> None:
        self.combiner = combiner
        self.state = {combiner.lhs[c]: self._origin(combiner.lhs[c]) for c in traced}
        self.element = {combiner.rhs[c]: self._origin(combiner.rhs[c]) for c in traced}
        self.known: dict[Expr, tuple[Expr, Expr]] = {}
        self.same = _agreements(combiner)

    def _origin(self, p: Param) -> Param:
        return param(f"{p.name}_at", INT64)

    def trace(self, root: Expr) -> tuple[Expr, Expr]:
        """(value, origin) of a tree of choices."""
        stack = [root]
        while stack:
            e = stack[-1]
            operands = _choices(e)
            missing = [c for c in operands if c not in self.known]
            if missing:
                stack.extend(missing)
                continue
            self.known[e] = self._node(e)
            stack.pop()
        return self.known[root]

    def _node(self, e: Expr) -> tuple[Expr, Expr]:
        match e:
            case Param():
                return e, self.state[e] if e in self.state else self.element[e]
            case Call(op=op, args=(first, second)):
                (a, at_a), (b, at_b) = self.known[first], self.known[second]
                unclaimed = logical_and(at_a < 0, at_b >= 0, call("eq", b, a))
                later = logical_or(beats(op, b, a), unclaimed)
                return select(later, b, a), select(later, at_b, at_a)
            case Select(cond=c, then=first, orelse=second):
                (a, at_a), (b, at_b) = self.known[first], self.known[second]
                taken = select(c, at_a, at_b)
                unclaimed = logical_and(taken < 0, self.same[c])
                other = call("maximum", at_a, at_b)
                return select(c, a, b), select(unclaimed, other, taken)
        return e, _NOWHERE


def _choices(e: Expr) -> tuple[Expr, ...]:
    if isinstance(e, Select):
        return (e.then, e.orelse)
    return e.args if isinstance(e, Call) else ()


def _agreements(combiner: Combiner) -> dict[Expr, Expr]:
    """For the condition of selects: whether both of their sides are equal in all components."""
    found: dict[Expr, list[Expr]] = {}
    for e in postorder(*combiner.results):
        if isinstance(e, Select):
            found.setdefault(e.cond, []).append(call("eq", e.then, e.orelse))
    return {c: logical_and(*parts) for c, parts in found.items()}
