"""Groups of computes that read each other at their own rows only.

A row of a group is one output axis of each of its members, all of one extent. It is proved from
the indices: wherever a member reads another, the index at the other's row is its own row itself.
So the members may run one after the other for one value of the row at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tensorad.codegen.fusion.steps import Step
from tensorad.ir.analysis.sizes import assumed_bytes
from tensorad.ir.cached import cached_property
from tensorad.ir.expr import Axis, Read

Row = Mapping[Step, Axis]
"""The axis of each member."""


@dataclass(frozen=True, eq=False)
class Group:
    """Steps in an order that may run, and the rows they have in common.

    Attributes:
        shared: the rows of several steps; None for one step: all its axes are rows.
        moved: bytes that a loop over rows may save, at most.
    """

    steps: tuple[Step, ...]
    shared: tuple[Row, ...] | None
    moved: float

    @property
    def perhaps(self) -> tuple[Row, ...]:
        """What its rows are among; known without a plan."""
        if self.shared is not None:
            return self.shared
        (step,) = self.steps
        return () if step.item is None else tuple([{step: a} for a in step.item.axes])

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """The axis of each member, for every row."""
        if self.shared is not None:
            return self.shared
        (step,) = self.steps
        return tuple([{step: a} for a in step.rows])


@dataclass(frozen=True, eq=False)
class _Edge:
    """One read between members of two groups."""

    producer: Step
    consumer: Step
    read: Read

    def matches(self, producers: Row, consumers: Row) -> bool:
        """Whether the reader stays in its own row."""
        a, b = producers[self.producer], consumers[self.consumer]
        return a.upper is b.upper and self.index(a) is b

    def index(self, a: Axis) -> object:
        """What the producer's axis is read at."""
        assert self.producer.item is not None  # it has rows
        position = [x is a for x in self.producer.item.axes].index(True)
        return self.read.indices[position]


def lone(step: Step) -> Group:
    """The group of one step."""
    return Group((step,), None, sum(2 * assumed_bytes(t) for t in step.reads))


def may_join(first: Group, second: Group) -> bool:
    """Whether both groups may have rows that all reads between them keep; known without a plan."""
    edges = _Edges(first, second)
    return edges.are_there and bool(edges.common(first.perhaps, second.perhaps))


def joined(first: Group, second: Group, position: Mapping[Step, int]) -> Group | None:
    """Both groups over the rows that all reads between them keep; None without any."""
    edges = _Edges(first, second)
    rows = edges.common(first.rows, second.rows) if edges.are_there else []
    if not rows:
        return None
    return Group(in_order((first, second), position), tuple(rows), first.moved + second.moved)


def in_order(groups: Sequence[Group], position: Mapping[Step, int]) -> tuple[Step, ...]:
    """The steps of groups in the order of all steps."""
    return tuple(sorted([s for g in groups for s in g.steps], key=position.__getitem__))


class _Edges:
    """The reads between two groups."""

    def __init__(self, first: Group, second: Group) -> None:
        self.there = [*_edges(first, second)]
        self.back = [*_edges(second, first)]

    @property
    def are_there(self) -> bool:
        return bool(self.there or self.back)

    def common(self, firsts: Sequence[Row], seconds: Sequence[Row]) -> list[Row]:
        """The rows of both that all reads keep."""
        found: list[Row] = []
        for a in firsts:
            for b in seconds:
                kept = all(e.matches(a, b) for e in self.there)
                if kept and all(e.matches(b, a) for e in self.back):
                    found.append({**a, **b})
                    break
        return found


def _edges(producers: Group, consumers: Group) -> Iterator[_Edge]:
    for p in producers.steps:
        for c in consumers.steps:
            for t in p.writes:
                for e in c.row_reads.get(t, ()):
                    yield _Edge(p, c, e)
