"""Which derivation of a gradient is kept: the one that visits the fewest points, counted, where the
tidied one visits more than its contributions have, or multiplies much."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Final

from tensorad.autodiff.adjoints.told import returned
from tensorad.autodiff.counting.contribution_points import MOST_POINTS
from tensorad.autodiff.counting.cost import SAMPLE, width
from tensorad.autodiff.counting.products import products
from tensorad.autodiff.counting.visits import Visits
from tensorad.collector import old_objects_at_rest
from tensorad.errors import CountError
from tensorad.ir.analysis.decisions import Decision, Record, is_listening, listening, note
from tensorad.ir.analysis.facts import facts_about
from tensorad.ir.analysis.points import evaluate
from tensorad.ir.cached import cached_property
from tensorad.ir.expr import Axis, Expr
from tensorad.ir.order import axes_in, sizes_in
from tensorad.ir.tensor import Compute, Op, Tensor, dim_expr
from tensorad.ir.visit import op_expressions, postorder, topological_ops
from tensorad.simplify.formula.short_circuit import short_circuited

Sizes = dict[Expr, int]
Heard = tuple[list[Tensor], Sequence[Record]]
"""Gradients, and what their derivation tells."""
_FEWER: Final = "it visits or multiplies less"
_PRODUCTS: Final = 5
"""Multiplications that are not much, for each one of the forward program and each point visited."""
_MOST_NODES: Final = 4000
"""Longer programs are not compared."""


@dataclass(frozen=True)
class Ways:
    """How gradients may be derived.

    Attributes:
        sweep: the optimised sweep.
        tidy: its results with less work.
        join: any results with fewer operations.
        apart: the points of such results where each contribution is gathered by itself, or so
            many as are enough; None if they are too many to be counted.
        others: what is compared where these visit more, or multiply much, by name.
        known: the operations whose values are the same in all of them.
    """

    sweep: Callable[[], list[Tensor]]
    tidy: Callable[[list[Tensor]], list[Tensor]]
    join: Callable[[list[Tensor]], list[Tensor]]
    apart: Callable[[list[Tensor], Sizes, int], int | None]
    others: Mapping[str, Callable[[], list[Tensor]]]
    known: Sequence[Op]


@old_objects_at_rest()
def derive_tidied(ways: Ways) -> list[Tensor]:
    """The gradients, whatever they visit."""
    swept = ways.sweep()
    return returned(swept, ways.join(ways.tidy(swept)), ways.known)


@old_objects_at_rest()
def derive_by_count(
    ways: Ways, y: Tensor, wrt: Sequence[Tensor], given: Sequence[Tensor]
) -> list[Tensor]:
    """The gradients of y by `wrt`, tidied; otherwise derived if those visit or multiply too much.

    Args:
        given: the head, if it is a tensor: what is behind it does not count.
    Ensures: another way is taken only where it visits fewer points at typical sizes, or as many
        and multiplies less, or where the ones before it multiply much.
    """
    swept, heard = _heard(ways.sweep)
    tidied, more = _heard(lambda: ways.join(ways.tidy(swept)))
    chosen: Heard = (tidied, [*heard, *more])
    ops = topological_ops([y, *wrt, *given])
    sizes = _sample(ops) if _is_short(ops) else None
    with suppress(CountError):  # where data decide how often loops run, nothing is compared
        visits = Visits(tidied, given)
        if sizes is not None and _is_countable(y, visits, sizes):
            visited, multiplied = visits.count(sizes), products(tidied, sizes, given)
            apart = ways.apart(swept, sizes, max(visited, -(-multiplied // _PRODUCTS)))
            count = None if apart is None else _Count(y, wrt, given, sizes, apart)
            if count is not None and count.is_dear(visited, multiplied):
                others: dict[str, Callable[[], Heard]] = {
                    "untidied": lambda: (ways.join(swept), heard)
                }
                others.update({plan: partial(_heard, w) for plan, w in ways.others.items()})
                chosen = count.least(chosen, others)
    return returned(swept, _tell(*chosen), ways.known)


class _Count:
    """What gradients of y do at some sizes, beside the points of their contributions."""

    def __init__(
        self,
        y: Tensor,
        wrt: Sequence[Tensor],
        given: Sequence[Tensor],
        sizes: Sizes,
        points: int,
    ) -> None:
        self.y, self.wrt, self.given, self.sizes, self.points = y, wrt, given, sizes, points

    def is_dear(self, visited: int, multiplied: int) -> bool:
        """Whether gradients visit more than these points, or multiply much for them."""
        return visited > self.points or self.beyond(multiplied) > 0

    def least(self, first: Heard, others: Mapping[str, Callable[[], Heard]]) -> Heard:
        """The gradients that visit the fewest points; before them, those that multiply less."""
        ways = {"": first, **{plan: derive() for plan, derive in others.items()}}
        visited = {plan: self.visited(found) for plan, (found, _) in ways.items()}
        multiplied = {plan: self.multiplied(found) for plan, (found, _) in ways.items()}
        rank = {
            plan: (self.beyond(multiplied[plan]), visited[plan], multiplied[plan]) for plan in ways
        }
        best = min(ways, key=lambda plan: rank[plan])
        found, records = ways[best]
        plans = [best] if best else []
        if rank[best][0] > 0:
            turned = short_circuited(found, dict.fromkeys(topological_ops([self.y, *self.given])))
            if self.multiplied(turned) < multiplied[best]:
                found, plans = turned, [*plans, "tests in turn"]
        return found, [
            *records,
            *[Decision((x,), plan, _FEWER) for plan in plans for x in self.wrt],
        ]

    def visited(self, found: list[Tensor]) -> int:
        return Visits(found, self.given).count(self.sizes)

    def multiplied(self, found: list[Tensor]) -> int:
        return products(found, self.sizes, self.given)

    def beyond(self, multiplied: int) -> int:
        """Multiplications that are too many for the points."""
        left = multiplied - _PRODUCTS * self.points
        return max(0, left - _PRODUCTS * self.forward_products) if left > 0 else 0

    @cached_property
    def forward_products(self) -> int:
        return products([self.y], self.sizes)


def _heard(derive: Callable[[], list[Tensor]]) -> Heard:
    """A derivation and what it tells."""
    if not is_listening():
        return derive(), ()
    with listening(Record) as heard:
        found = derive()
    return found, heard


def _tell(found: list[Tensor], heard: Sequence[Record]) -> list[Tensor]:
    for record in heard:
        note(record)
    return found


def _sample(ops: Sequence[Op]) -> Sizes | None:
    """A typical value of all symbolic sizes; None if it is not possible."""
    roots = [e for op in ops for e in (*op_expressions(op), *map(dim_expr, op.shape))]
    sizes: Sizes = dict.fromkeys(sizes_in(*roots), SAMPLE)
    shapes = [dim_expr(n) for op in ops for n in op.shape]
    return sizes if not sizes or _is_possible(sizes, shapes) else None


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
    if listed <= MOST_POINTS and _box(topological_ops([y]), sizes) > MOST_POINTS:
        listed += Visits([y]).listed(sizes)
    return listed <= MOST_POINTS


def _box(ops: Sequence[Op], sizes: Sizes) -> int:
    """The points of the operations, as if all axes in one were around each other."""
    found = [dict.fromkeys(_axes_of(op)) for op in ops]
    return sum([prod([width(a, sizes) for a in axes]) for axes in found if axes])


def _axes_of(op: Op) -> list[Axis]:
    roots = [*op.axes, *op_expressions(op)] if isinstance(op, Compute) else op_expressions(op)
    return axes_in(*roots)
