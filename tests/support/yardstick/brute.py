"""The bound B of a gradient, counted by going through every point of the forward program.

B is: of each adjoint its elements or, if they are more, the points where a derivative flows through
a read of its tensor (both, where data say which element is read); every forward operation whose
values slopes mention; and the points of reductions that are no sums, again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from tensorad.ir.expr import Apply, Axis, Call, Cast, Expr, Read, Reduce, Select, size_var
from tensorad.ir.tensor import (
    Compute,
    Constant,
    Op,
    Placeholder,
    Scan,
    Scatter,
    Tensor,
    dim_of,
    outputs,
)
from tensorad.ir.visit import children, topological_ops
from tests.support.yardstick.calculus import fold, mentioned, moving
from tests.support.yardstick.points import (
    Conditions,
    Point,
    below,
    extent,
    is_data,
    is_outer,
    parts,
    points,
)

Nest = tuple[Axis, ...]
Key = tuple[object, ...]
"""Of a fold; its components have the same."""
Root = tuple[Sequence[Expr], Nest, Expr | None]
"""Expressions side by side, the axes around, and a condition."""


class Counted(NamedTuple):
    """The three terms of B."""

    adjoints: int
    forward: int
    walked: int

    @property
    def total(self) -> int:
        return sum(self)


@dataclass
class _Seen:
    """What a derivative came across in one operation.

    Attributes:
        reads: where each read is live: the values of the axes of each nest.
        folds: points of each reduction, by nest.
        members: reductions of each fold.
        mentioned: expressions whose values are needed.
    """

    reads: dict[Expr, dict[Nest, set[tuple[int, ...]]]] = field(default_factory=dict)
    folds: dict[Key, dict[Nest, int]] = field(default_factory=dict)
    members: dict[Key, dict[Reduce, None]] = field(default_factory=dict)
    mentioned: dict[Expr, None] = field(default_factory=dict)


def brute_bound(
    y: Tensor, wrt: Iterable[Tensor], sizes: Mapping[str, int] | None = None
) -> Counted:
    """The terms of B of the gradient of `y` by `wrt`, given a head."""
    return _Brute(y, wrt, sizes or {}).counted()


class _Brute:
    def __init__(self, y: Tensor, wrt: Iterable[Tensor], sizes: Mapping[str, int]) -> None:
        self.y, self.wrt = y, list(dict.fromkeys(wrt))
        self.sizes: Point = {size_var(n): v for n, v in sizes.items()}
        self.leading = set(self.wrt)
        self.received: dict[Tensor, list[tuple[int, bool]]] = {y: []}
        self.needed: dict[Tensor, None] = {}
        self.folds: dict[Op, dict[Key, None]] = {}
        self.walked = 0
        self.conditions = Conditions()
        self.moving: dict[Expr, bool] = {}
        self.outer: dict[Reduce, list[Expr]] = {}

    def counted(self) -> Counted:
        ops = topological_ops([self.y])
        for op in ops:
            self._find_leading(op)
        for op in reversed(ops):
            heads = [t for t in outputs(op) if t in self.received and t in self.leading]
            if heads and not isinstance(op, Placeholder | Constant):
                self._through(op, heads)
        return Counted(self._adjoints(), self._forward(), self.walked)

    def _elements(self, t: Tensor | Op) -> int:
        return math.prod([extent(n, self.sizes) for n in t.shape])

    # What moves with the inputs

    def _find_leading(self, op: Op) -> None:
        for t in outputs(op):
            roots = [root for roots, _, _ in self._roots(op, [t]) for root in roots]
            if isinstance(op, Scatter) and op.init in self.leading:
                self.leading.add(t)
            if any(self._moves(e) for e in roots):
                self.leading.add(t)

    def _moves(self, e: Expr) -> bool:
        return any(isinstance(i, Read) and i.tensor in self.leading for i in self._flow(e))

    def _is_moving(self, e: Expr) -> bool:
        """The same, when it is known what leads."""
        if e not in self.moving:
            self.moving[e] = self._moves(e)
        return self.moving[e]

    def _flow(self, root: Expr) -> dict[Expr, None]:
        """The nodes whose change changes `root`."""
        found: dict[Expr, None] = {}
        stack = [root]
        while stack:
            e = stack.pop()
            if e.dtype.is_float and e not in found:
                found[e] = None
                stack.extend(_operands(e))
        return found

    def _roots(self, op: Op, heads: Sequence[Tensor]) -> list[Root]:
        """The values that adjoints of some tensors of an operation come to."""
        match op:
            case Compute():
                return [([op.bodies[t.index] for t in heads], tuple(op.axes), None)]
            case Scatter():
                return [([u.value], tuple(op.axes), u.condition) for u in op.updates]
            case Scan():
                f = fold(op.combiner)
                used = f.components([t.index % op.combiner.arity for t in heads])
                starts: list[Root] = [([op.start[n]], tuple(op.axes), None) for n in used]
                steps: list[Root] = [
                    ([op.sources[m]], tuple(op.scope), op.condition) for m in f.elements(used)
                ]
                return starts + steps
        return []

    # What adjoints come through

    def _through(self, op: Op, heads: Sequence[Tensor]) -> None:
        seen = _Seen()
        for every, axes, condition in self._roots(op, heads):
            roots = [root for root in every if self._is_moving(root)]
            for root in roots:
                self._look(root, seen)
            for at in points(axes, self.sizes) if roots else ():
                if condition is None or self.conditions.may_hold(condition, at):
                    self._visit(roots, axes, at, seen)
        own: tuple[Axis, ...] = tuple(getattr(op, "axes", ()))
        match op:
            case Scan():
                self._scan(seen, op, heads)
                own = (*own, *op.along)
            case Scatter():
                self._scatter(seen, op)
        for e, nests in seen.reads.items():
            assert isinstance(e, Read)
            self._receive(e, nests, set(own))
        for key, nests in seen.folds.items():
            members = list(seen.members[key])
            f = fold(members[0].combiner)
            self.walked += f.walks(f.components([e.index for e in members])) * max(nests.values())
        self._need(op, seen.mentioned)

    def _scan(self, seen: _Seen, op: Scan, heads: Sequence[Tensor]) -> None:
        f = fold(op.combiner)
        factor = f.walks(f.components([t.index % op.combiner.arity for t in heads]))
        self.walked += factor * self._scan_points(op)
        if factor:
            seen.mentioned.update(dict.fromkeys((*op.sources, op.condition, *op.start)))

    def _scatter(self, seen: _Seen, op: Scatter) -> None:
        moves = [u for u in op.updates if self._is_moving(u.value)]
        if op.init is not None and op.init in self.leading:
            self.received.setdefault(op.init, []).append((self._elements(op), False))
        factor = fold(op.combiner).walks([0])
        self.walked += factor * (self._elements(op) + self._domain(op))
        if op.init is not None and (factor == 1 or (factor and moves)):
            self.needed[op.init] = None
        for u in moves:
            seen.mentioned.update(dict.fromkeys((*u.indices, u.condition)))
            seen.mentioned.update(dict.fromkeys((u.value,) if factor else ()))

    def _domain(self, op: Scatter) -> int:
        return sum([1 for _ in points(op.axes, self.sizes)])

    def _scan_points(self, op: Scan) -> int:
        cells = 0 if op.cell is None else sum([1 for _ in points(op.axes, self.sizes)])
        return cells + sum([1 for _ in points(op.scope, self.sizes)])

    def _look(self, root: Expr, seen: _Seen) -> None:
        """The reads on the way of a derivative, live or not, and what slopes mention."""
        for e in self._flow(root):
            if isinstance(e, Read) and e.tensor in self.leading:
                seen.reads.setdefault(e, {})
                seen.mentioned.update(dict.fromkeys(e.indices))
            elif self._is_moving(e):
                active = {c for c in _operands(e) if self._is_moving(c)}
                seen.mentioned.update(dict.fromkeys(_mentions(e, active)))

    def _visit(self, roots: Sequence[Expr], nest: Nest, at: Point, seen: _Seen) -> None:
        """Everything that a derivative flows through at one point of loops."""
        done: set[Expr] = set()
        groups: dict[Key, list[Reduce]] = {}
        stack = [e for e in roots if self._is_moving(e)]
        while stack:
            e = stack.pop()
            if e in done:
                continue
            done.add(e)
            if isinstance(e, Reduce):
                groups.setdefault(_key(e), []).append(e)
            elif isinstance(e, Read):
                here = tuple([at[a] for a in nest])
                seen.reads[e].setdefault(nest, set()).add(here)
            else:
                stack.extend(
                    [c for c in _operands(e) if self._is_moving(c) and self._is_live(e, c, at)]
                )
        for key, members in groups.items():
            self._visit_fold(key, members, nest, at, seen)

    def _visit_fold(
        self, key: Key, members: Sequence[Reduce], nest: Nest, at: Point, seen: _Seen
    ) -> None:
        first = members[0]
        sources = [s for e in members for s in _operands(e)]
        inside = (*nest, *first.axes)
        seen.members.setdefault(key, {}).update(dict.fromkeys(members))
        counts = seen.folds.setdefault(key, {})
        counts.setdefault(inside, 0)
        if not self._is_switched_on(first, at):
            return
        for inner in points(first.axes, at):
            counts[inside] += 1
            if self.conditions.may_hold(first.condition, inner):
                self._visit(sources, inside, inner, seen)

    def _is_switched_on(self, e: Reduce, at: Point) -> bool:
        """Whether a reduction's loops run: what is said without its axes may hold."""
        if e not in self.outer:
            self.outer[e] = [c for c in parts(e.condition) if is_outer(c, e.axes)]
        return all(self.conditions.may_hold(c, at) for c in self.outer[e])

    def _is_live(self, e: Expr, operand: Expr, at: Point) -> bool:
        """Whether an operand is used at a point: both sides of a select if data decide."""
        if not isinstance(e, Select) or operand is e.cond:
            return True
        if operand is e.then and self.conditions.may_hold(e.cond, at):
            return True
        return operand is e.orelse and self.conditions.may_fail(e.cond, at)

    def _receive(self, e: Read, nests: Mapping[Nest, set[tuple[int, ...]]], own: set[Axis]) -> None:
        """One read, at the points of all loops where it is live.

        What stands outside of reductions, too, is added where elements of the formula are stored:
        for free, if each is read there once.
        """
        inside = sum([len(p) for n, p in nests.items() if any(a not in own for a in n)])
        outside = sum([len(p) for n, p in nests.items() if all(a in own for a in n)])
        moved = set(e.indices)
        once = all(a in moved or extent(dim_of(a.upper), self.sizes) == 1 for a in own)
        count = max(inside, outside) if once else inside + outside
        self.received.setdefault(e.tensor, []).append((count, is_data(*e.indices)))

    def _need(self, op: Op, roots: Iterable[Expr]) -> None:
        for e in below(*roots):
            if isinstance(e, Read):
                self.needed[e.tensor] = None
            elif isinstance(e, Reduce):
                self.folds.setdefault(op, {})[_key(e)] = None

    # The terms

    def _adjoints(self) -> int:
        total = 0
        between = [t for t in self.received if t in self.leading]
        for t in dict.fromkeys((*self.wrt, *between)):
            if t is not self.y:
                parts_ = self.received.get(t, [])
                count, elements = sum([n for n, _ in parts_]), self._elements(t)
                by_data = any(d for _, d in parts_)
                total += elements + count if by_data else max(elements, count)
        return total

    def _forward(self) -> int:
        whole = topological_ops(self.needed)
        total = sum([self._points_of(op) for op in whole])
        for op, keys in self.folds.items():
            if op not in whole:
                found = self._fold_points(op)
                total += sum([found.get(key, 0) for key in keys])
        return total

    def _points_of(self, op: Op) -> int:
        match op:
            case Placeholder() | Constant():
                return 0
            case Scan():
                return self._scan_points(op)
            case Scatter():
                folds = sum(self._fold_points(op).values())
                return self._elements(op) + self._domain(op) + folds
        found = self._fold_points(op)
        return sum(found.values()) if found else self._elements(op)

    def _fold_points(self, op: Op) -> dict[Key, int]:
        """The points of each reduction of an operation, computed as it is written."""
        match op:
            case Compute():
                groups = [(tuple(op.bodies), tuple(op.axes))]
            case Scatter():
                groups = [((*u.indices, u.value, u.condition), tuple(op.axes)) for u in op.updates]
            case _:
                raise NotImplementedError(type(op).__name__)
        found = {_key(e): 0 for roots, _ in groups for e in below(*roots) if isinstance(e, Reduce)}
        if found:
            for roots, axes in groups:
                for at in points(axes, self.sizes):
                    self._compute(roots, at, found)
        return found

    def _compute(self, roots: Sequence[Expr], at: Point, found: dict[Key, int]) -> None:
        done: set[Expr] = set()
        groups: dict[Key, list[Reduce]] = {}
        stack = list(roots)
        while stack:
            e = stack.pop()
            if e in done:
                continue
            done.add(e)
            if isinstance(e, Reduce):
                groups.setdefault(_key(e), []).append(e)
            else:
                stack.extend([c for c in children(e) if self._is_live(e, c, at)])
        for key, members in groups.items():
            first = members[0]
            if not self._is_switched_on(first, at):
                continue
            for inner in points(first.axes, at):
                found[key] += 1
                self._compute([first.condition], inner, found)
                if self.conditions.may_hold(first.condition, inner):
                    self._compute(first.sources, inner, found)


def _key(e: Reduce) -> Key:
    return e.combiner, e.sources, e.axes, e.condition


def _operands(e: Expr) -> list[Expr]:
    """The operands whose change changes `e` smoothly."""
    match e:
        case Select():
            found = [e.then, e.orelse]
        case Cast():
            found = [e.value]
        case Call():
            found = [a for a, m in zip(e.args, moving(e.op, len(e.args)), strict=True) if m]
        case Apply():
            _, slopes = e.function.partials()
            found = [a for a, p in zip(e.args, slopes, strict=True) if p is not None]
        case Reduce():
            f = fold(e.combiner)
            found = [e.sources[n] for n in f.components([e.index])]
        case _:
            found = []
    return [c for c in found if c.dtype.is_float and e.dtype.is_float]


def _mentions(e: Expr, active: Set[Expr]) -> list[Expr]:
    """The operands that slopes of `e` by the active ones change with."""
    match e:
        case Select():
            return [e.cond]
        case Call():
            rows = mentioned(e.op, len(e.args))
            chosen = [r for a, r in zip(e.args, rows, strict=True) if a in active]
            return [a for n, a in enumerate(e.args) if any(r[n] for r in chosen)]
        case Apply():
            return list(e.args)
        case Reduce():
            f = fold(e.combiner)
            again = f.walks(f.components([e.index]))  # its states come from all elements
            return [e.condition, *(e.sources if again else ())]
    return []
