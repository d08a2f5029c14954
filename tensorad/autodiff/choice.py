"""Which derivation of a gradient is kept: another one where the tidied one visits more points
or multiplies more than the yardstick allows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Final

from tensorad.autodiff.cost import SAMPLE, width
from tensorad.autodiff.products import products
from tensorad.autodiff.visits import Visits
from tensorad.bound import bound
from tensorad.errors import CountError
from tensorad.ir.cached import cached_property
from tensorad.ir.collector import old_objects_at_rest
from tensorad.ir.expr import Axis, Expr, Size
from tensorad.ir.facts import facts_about
from tensorad.ir.order import axes_in, sizes_in
from tensorad.ir.points import evaluate
from tensorad.ir.tensor import Compute, Op, Tensor, dim_expr
from tensorad.ir.visit import op_expressions, postorder, topological_ops
from tensorad.simplify.record import Decision, Record, is_listening, listening, note
from tensorad.simplify.turns import asked_in_turn

Sizes = dict[Expr, int]
Heard = tuple[list[Tensor], Sequence[Record]]
"""Gradients, and what their derivation tells."""
_FEWER: Final = "it visits or multiplies less"
_NONE: Final = (0, 0)
_PRODUCTS: Final = 5
"""Multiplications allowed for each one of the forward program and each point of the bound."""
_SMALL: Final = (0, 1, 3)
_MOST_NODES: Final = 4000
"""Longer programs are not compared: the yardstick looks at a formula once for each of its parts."""
_MOST_POINTS: Final = 1 << 17
"""Loops that need more points listed to be counted are not compared."""


@dataclass(frozen=True)
class Ways:
    """How gradients may be derived.

    Attributes:
        sweep: the optimised sweep.
        tidy: its results with less work.
        others: what is tried where these visit or multiply too much, by name.
    """

    sweep: Callable[[], list[Tensor]]
    tidy: Callable[[list[Tensor]], list[Tensor]]
    others: Mapping[str, Callable[[], list[Tensor]]]


@old_objects_at_rest()
def derive_tidied(ways: Ways) -> list[Tensor]:
    """The gradients, whatever they visit."""
    return ways.tidy(ways.sweep())


@old_objects_at_rest()
def derive_within_bound(
    ways: Ways, y: Tensor, wrt: Sequence[Tensor], given: Sequence[Tensor]
) -> list[Tensor]:
    """The gradients of y by `wrt`, tidied; otherwise derived if those visit or multiply too much.

    Args:
        given: the head, if it is a tensor: what is behind it does not count.
    Ensures: another way is taken only where the ones before it exceed the yardstick at some
        small or typical sizes, and by more, or multiply more than its points allow.
    """
    swept, heard = _heard(ways.sweep)
    tidied, more = _heard(lambda: ways.tidy(swept))
    chosen: Heard = (tidied, [*heard, *more])
    ops = topological_ops([y, *wrt, *given])
    samples = _samples(ops) if _is_short(ops) else []
    with suppress(CountError):  # where data decide how often loops run, nothing is compared
        if samples and _is_countable(y, Visits(tidied, given), samples[0]):
            limit = _Limit(y, wrt, given, samples)
            others: dict[str, Callable[[], Heard]] = {"untidied": lambda: (swept, heard)}
            others.update({plan: partial(_heard, w) for plan, w in ways.others.items()})
            chosen = limit.least(chosen, others)
    return _tell(*chosen)


class _Limit:
    """How much the gradients of y may do, at some sizes."""

    def __init__(
        self, y: Tensor, wrt: Sequence[Tensor], given: Sequence[Tensor], samples: Sequence[Sizes]
    ) -> None:
        self.y, self.wrt, self.given, self.samples = y, wrt, given, samples
        self.points = [bound(y, wrt, _by_name(sizes)) for sizes in samples]

    def least(self, first: Heard, others: Mapping[str, Callable[[], Heard]]) -> Heard:
        """The first gradients that do not exceed the limit, else those that do by the least."""
        best, least = first, self.excess(first[0])
        for plan, derive in others.items():
            if least > _NONE:
                found, records = derive()
                above = self.excess(found)
                if above < least:
                    chosen = [Decision(x, plan, _FEWER) for x in self.wrt]
                    best, least = (found, [*records, *chosen]), above
        if least > _NONE:
            found = asked_in_turn(best[0], dict.fromkeys(topological_ops([self.y, *self.given])))
            if self.excess(found) < least:
                chosen = [Decision(x, "tests in turn", _FEWER) for x in self.wrt]
                best = found, [*best[1], *chosen]
        return best

    def excess(self, found: list[Tensor]) -> tuple[int, int]:
        """Points beyond those allowed, over all samples; products, at the first."""
        visited = Visits(found, self.given)
        counts = [visited.count(sizes) for sizes in self.samples]
        above = sum([max(0, n - m) for n, m in zip(counts, self.points, strict=True)])
        beyond = products(found, self.samples[0], self.given) - _PRODUCTS * self.points[0]
        if beyond > 0:
            beyond -= _PRODUCTS * self.forward_products
        return above, max(0, beyond)

    @cached_property
    def forward_products(self) -> int:
        return products([self.y], self.samples[0])


def _heard(derive: Callable[[], list[Tensor]]) -> Heard:
    """A derivation and what it tells."""
    if not is_listening():
        return derive(), ()
    with listening() as heard:
        found = derive()
    return found, heard


def _tell(found: list[Tensor], heard: Sequence[Record]) -> list[Tensor]:
    for record in heard:
        note(record)
    return found


def _samples(ops: Sequence[Op]) -> list[Sizes]:
    """Values of the symbolic sizes, the typical ones first: all alike, or one unlike the rest."""
    roots = [e for op in ops for e in (*op_expressions(op), *map(dim_expr, op.shape))]
    sizes = sizes_in(*roots)
    if not sizes:
        return [{}]
    found: list[Sizes] = [dict.fromkeys(sizes, SAMPLE)]
    for n in _SMALL:
        ones: list[Expr] = [*sizes[:2]] if len(sizes) > 1 else []
        found.append(dict.fromkeys(sizes, n))
        found += [{s: n if s is one else n + 1 for s in sizes} for one in ones]
    shapes = [dim_expr(n) for op in ops for n in op.shape]
    return [f for f in found if _is_possible(f, shapes)]


def _by_name(sizes: Sizes) -> dict[str, int]:
    return {s.name: n for s, n in sizes.items() if isinstance(s, Size)}


def _is_short(ops: Sequence[Op]) -> bool:
    """Whether counting takes a small part of the time that differentiating takes."""
    left = _MOST_NODES
    for op in ops:
        left -= 1 + len(postorder(*op_expressions(op)))
        if left < 0:
            return False
    return True


def _is_possible(sizes: Sizes, shapes: Sequence[Expr]) -> bool:
    """Whether what is known about the sizes holds, and no shape is negative."""
    about = [f for f in facts_about(sizes) if all(n in sizes for n in sizes_in(f))]
    facts = evaluate(about, {}, sizes)
    return all(map(bool, facts)) and all(n >= 0 for n in evaluate(shapes, {}, sizes))


def _is_countable(y: Tensor, visited: Visits, sizes: Sizes) -> bool:
    """Whether few enough points have to be listed to count those of all loops."""
    listed = visited.listed(sizes)
    if listed <= _MOST_POINTS and _box(topological_ops([y]), sizes) > _MOST_POINTS:
        listed += Visits([y]).listed(sizes)
    return listed <= _MOST_POINTS


def _box(ops: Sequence[Op], sizes: Sizes) -> int:
    """The points of the operations, as if all axes in one were around each other."""
    found = [dict.fromkeys(_axes_of(op)) for op in ops]
    return sum([prod([width(a, sizes) for a in axes]) for axes in found if axes])


def _axes_of(op: Op) -> list[Axis]:
    roots = [*op.axes, *op_expressions(op)] if isinstance(op, Compute) else op_expressions(op)
    return axes_in(*roots)
