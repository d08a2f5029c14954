"""Fuses steps that have rows in common into one loop over them (`fuse_rows`, `_Graph.merge`).

A step is what one kernel used to run. Steps are merged along the reads between them while the
order of all steps stays possible; `row_groups` says whether their rows match, `tile` whether a
merged group pays and how its loop over rows runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tensorad.codegen.fusion.emit import write_group
from tensorad.codegen.fusion.equal_groups import pair_key
from tensorad.codegen.fusion.latest_start import Lateness
from tensorad.codegen.fusion.row_groups import Group, in_order, joined, lone, may_join
from tensorad.codegen.fusion.steps import Step
from tensorad.codegen.fusion.tile import Tile, best_tile, may_pay, may_save, reason
from tensorad.codegen.loops.ir import Kernel
from tensorad.codegen.target import machine
from tensorad.ir.analysis.alike import Key
from tensorad.ir.analysis.decisions import Decision, note
from tensorad.ir.analysis.sizes import fixed_bytes
from tensorad.ir.tensor import Tensor

MOST_STEPS = 400
"""Programs of more steps are fused in stretches of this length."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RowStep(Step):
    """Steps that run in one loop over rows.

    Attributes:
        outside: what they leave in memory.
    """

    group: Group
    tile: Tile
    outside: dict[Tensor, None]

    def written(self) -> tuple[Kernel, ...]:
        """The loops of the group."""
        made = tuple([t for s in self.group.steps for t in s.writes])
        note(Decision(made, *reason(self.group, self.tile, self.outside)))
        return (write_group(self.group, self.tile, self.outside),)


def fuse_rows(steps: Sequence[Step], wanted: Iterable[Tensor]) -> list[Step]:
    """The steps in an order that may run, those in one that share a loop over rows.

    Args:
        wanted: tensors to be stored although no step may read them.
    """
    kept = dict.fromkeys(wanted)
    refused: dict[Key, None] = {}
    found: list[Step] = []
    for at in range(0, len(steps), MOST_STEPS):
        stretch = steps[at : at + MOST_STEPS]
        later = [t for s in steps[at + MOST_STEPS :] for t in s.reads]
        found.extend(_fuse(stretch, {**kept, **dict.fromkeys(later)}, refused))
    return found


def _fuse(
    steps: Sequence[Step], kept: dict[Tensor, None], refused: dict[Key, None]
) -> Iterator[Step]:
    graph = _Graph(steps, refused)
    merged = True
    while merged:  # what did not pay for two alone may pay for their groups
        merged = False
        for step in steps:
            for before in graph.producers(step):
                merged = graph.merge(before, step, kept) or merged
    for group in graph.in_order():
        tile = graph.tiles.get(group)
        if tile is None:
            yield from group.steps
        else:
            yield _row_step(group, tile, graph.outside(group.steps, kept))


def _row_step(group: Group, tile: Tile, outside: dict[Tensor, None]) -> RowStep:
    made = dict.fromkeys(t for s in group.steps for t in s.writes)
    read = dict.fromkeys(t for s in group.steps for t in s.reads if t not in made)
    plans = group.steps[0].plans
    return RowStep(
        None, (), tuple(read), tuple(outside), plans, group=group, tile=tile, outside=outside
    )


class _Graph:
    """Groups of steps, and what has to run before what."""

    def __init__(self, steps: Sequence[Step], refused: dict[Key, None]) -> None:
        """`refused`: pairs that were not joined, by what equal ones have in common."""
        self.steps = steps
        self.refused_alike = refused
        self.writer = {t: s for s in steps for t in s.writes}
        self.position = {s: n for n, s in enumerate(steps)}
        self.readers: dict[Tensor, list[Step]] = {}
        for s in steps:
            for t in dict.fromkeys(s.reads):
                self.readers.setdefault(t, []).append(s)
        self.group = {s: lone(s) for s in steps}
        self.before = {s: self._before(s) for s in steps}
        self.behind: dict[Step, list[Step]] = {s: [] for s in steps}
        for s in steps:
            for p in self.before[s]:
                self.behind[p].append(s)
        self.late = Lateness([self.group[s] for s in steps])
        self.tiles: dict[Group, Tile] = {}
        self.refused: dict[tuple[Group, Group], None] = {}

    def _before(self, step: Step) -> list[Step]:
        found = dict.fromkeys(self.writer[t] for t in step.reads if t in self.writer)
        found.update(dict.fromkeys(s for s in step.after if s in self.position))
        found.pop(step, None)
        return list(found)

    def producers(self, step: Step) -> list[Step]:
        """The steps whose tensors it reads, the latest first."""
        return self.before[step][::-1]

    def merge(self, first: Step, second: Step, kept: dict[Tensor, None]) -> bool:
        """Join the groups of two steps if rows, order and costs allow it."""
        a, b = self.group[first], self.group[second]
        if a is b or (a, b) in self.refused:
            return False
        found, tile = None, None
        if may_pay(a, b) and may_join(a, b) and not self._between(a, b):
            found, tile = self._tiled(a, b, kept)
        if found is None or tile is None:
            self.refused[a, b] = None
            return False
        for s in found.steps:
            self.group[s] = found
        self.late.merge(found, (a, b), self._users)
        self.tiles[found] = tile
        return True

    def _tiled(
        self, a: Group, b: Group, kept: dict[Tensor, None]
    ) -> tuple[Group | None, Tile | None]:
        """Both groups in one, and its loops; equal pairs are not tried again."""
        steps = in_order((a, b), self.position)
        outside = self.outside(steps, kept)
        if not may_save(steps, outside):
            return None, None
        before = (a, self.tiles.get(a)), (b, self.tiles.get(b))
        key = pair_key(steps, before, outside)
        if key is not None and key in self.refused_alike:
            return None, None
        found = joined(a, b, self.position)
        tile = None if found is None else best_tile(found, outside, before)
        if tile is None and key is not None:
            self.refused_alike[key] = None
        return found, tile

    def _between(self, first: Group, last: Group) -> bool:
        """Whether something outside of both runs after one and before the other."""
        return self._has_indirect_dependence(first, last) or self._has_indirect_dependence(
            last, first
        )

    def _has_indirect_dependence(self, start: Group, end: Group) -> bool:
        """Whether what `end` needs beside `start` needs that one, too."""
        others = self._inputs(end, (start, end))
        return self.late.leads_to(others, start, lambda g: self._inputs(g, (end, g)))

    def _inputs(self, g: Group, without: Sequence[Group]) -> list[Group]:
        found = dict.fromkeys(self.group[p] for s in g.steps for p in self.before[s])
        return [x for x in found if not any(x is w for w in without)]

    def _users(self, g: Group) -> list[Group]:
        found = dict.fromkeys(self.group[p] for s in g.steps for p in self.behind[s])
        return [x for x in found if x is not g]

    def outside(self, steps: Sequence[Step], kept: dict[Tensor, None]) -> dict[Tensor, None]:
        """What a group must leave in memory: outputs, and what other steps read."""
        members = dict.fromkeys(steps)
        made = dict.fromkeys(t for s in steps for t in s.writes)
        found = {t: None for t in made if t in kept}
        readers = {s: None for t in made for s in self.readers.get(t, ()) if s not in members}
        for s in sorted(readers, key=self.position.__getitem__):
            found.update({t: None for t in s.reads if t in made})
        return found

    def _leaves_caches(self, group: Group) -> bool:
        """Whether it writes more than the last cache holds, and nobody reads what it writes."""
        made = dict.fromkeys(t for s in group.steps for t in s.writes)
        size_bytes = sum([fixed_bytes(t) or 0 for t in made])
        if size_bytes <= machine.current().l3:
            return False
        readers = [s for t in made for s in self.readers.get(t, ())]
        return all(self.group[s] is group for s in readers)

    def in_order(self) -> list[Group]:
        """All groups, each after those it needs; results that leave all caches come last.

        What runs before them may have its temporaries in their memory (`alias_temporaries`).
        """
        done: dict[Group, None] = {}
        groups = dict.fromkeys(self.group[s] for s in self.steps)
        stack = sorted(groups, key=self._leaves_caches)[::-1]
        while stack:
            g = stack[-1]
            missing = [] if g in done else [x for x in self._inputs(g, (g,)) if x not in done]
            if missing:
                stack.extend(missing[::-1])
                continue
            stack.pop()
            done[g] = None
        return list(done)
