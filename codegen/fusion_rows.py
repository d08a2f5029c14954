"""Groups of computes that read each other at their own rows only.

A row of a group is one output axis of each of its members, all of one extent. It is proved from
the indices: wherever a member reads another, the index at the other's row is its own row itself.
So the members may run one after the other for one value of the row at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tensorad.codegen.fusion_step import Step
from tensorad.ir.expr import Axis, Read

Row = Mapping[Step, Axis]
"""The axis of each member."""


@dataclass(frozen=True, eq=False)
class Group:
    """Steps in an order that may run, and the rows they have in common."""

    steps: tuple[Step, ...]
    rows: tuple[Row, ...]


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
    """The group of one step: all its axes are rows."""
    return Group((step,), tuple([{step: a} for a in step.rows]))


def joined(first: Group, second: Group, position: Mapping[Step, int]) -> Group | None:
    """Both groups over the rows that all reads between them keep; None without any."""
    edges = [*_edges(first, second)]
    back = [*_edges(second, first)]
    rows: list[Row] = []
    for a in first.rows:
        for b in second.rows:
            kept = all(e.matches(a, b) for e in edges) and all(e.matches(b, a) for e in back)
            if kept:
                rows.append({**a, **b})
                break
    if not rows or not (edges or back):
        return None
    steps = sorted((*first.steps, *second.steps), key=lambda s: position[s])
    return Group(tuple(steps), tuple(rows))


def _edges(producers: Group, consumers: Group) -> Iterator[_Edge]:
    for p in producers.steps:
        for c in consumers.steps:
            for t in p.writes:
                for e in c.row_reads.get(t, ()):
                    yield _Edge(p, c, e)
