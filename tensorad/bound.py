"""The yardstick of a gradient: how many iterations it may cost, read off the forward program.

Nothing here knows how gradients are built. Three terms: every adjoint is stored once or
receives one contribution per live read of its tensor; forward values that the partial
derivatives mention are computed once; a reduction that is no sum is walked again (once to find
the winner of a selection, twice otherwise). Loops count as the forward program writes them: a
reduction inside a formula at all points of the formula. Calls, branches and loops cost what the
program costs with all blocks written out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tensorad.ir.analysis.alike import Form, Formula, form_of
from tensorad.ir.analysis.blocks import has_blocks
from tensorad.ir.analysis.flow import flow, flowing_components, scanned, values_in_partials, walks
from tensorad.ir.analysis.levels import FoldSite, Level, every_operand, first_component, loop_levels
from tensorad.ir.analysis.points import count_points, depends_on_data, evaluate, possible
from tensorad.ir.expr import TRUE, Axis, Expr, Read, Reduce, size_var
from tensorad.ir.reference.unroll import unrolled
from tensorad.ir.tensor import (
    Compute,
    Constant,
    Op,
    Placeholder,
    Scan,
    Scatter,
    Tensor,
    dim_expr,
    outputs,
)
from tensorad.ir.visit import op_expressions, postorder, topological_ops

Contexts = dict[Expr, list[tuple[Expr, ...]]]
"""Read -> the axes and conditions around each of its occurrences."""


def bound(y: Tensor, wrt: Iterable[Tensor], sizes: Mapping[str, int] | None = None) -> int:
    """The most iterations the gradient of `y` with respect to `wrt`, given a head, may cost.

    Args:
        sizes: values of symbolic sizes; of how often loops run, where only the run tells, by the
            names that texts call them by.
    Raises:
        UserError: a symbolic size has no value in `sizes`.
        LimitError: loops run more than 10,000 times.
    """
    leaves = list(wrt)
    if has_blocks([y]):
        y, *leaves = unrolled([y, *leaves], sizes)
    return _Yardstick(y, leaves, sizes or {}).total()


_Led = tuple[Form, tuple[bool, ...]]
"""The form of an operation, and which of the tensors it reads lead to `wrt`."""


@dataclass(eq=False)
class _Passage:
    """What an operation adds when adjoints pass through it; equal operations add the same.

    Attributes:
        op: the first operation of the form, whose nodes stand for those of the others.
        leading: the tensors it reads through which a derivative reaches `wrt`.
        active: its nodes through which a derivative reaches `wrt`.
        received: the tensors it reads -> contributions, each with whether data says where.
        needed: tensors whose values partial derivatives mention.
        folds: reductions whose values they mention.
        walked: points of reductions walked again.
    """

    op: Formula
    leading: dict[Tensor, None]
    active: dict[Expr, None]
    received: dict[Tensor, list[tuple[int, bool]]] = field(default_factory=dict)
    needed: dict[Tensor, None] = field(default_factory=dict)
    folds: dict[Expr, None] = field(default_factory=dict)
    walked: int = 0

    def receive(self, t: Tensor, points: int, *, by_data: bool = False) -> None:
        self.received.setdefault(t, []).append((points, by_data))


class _Yardstick:
    """The analysis of one gradient."""

    def __init__(self, y: Tensor, wrt: Sequence[Tensor], sizes: Mapping[str, int]) -> None:
        self.y = y
        self.wrt = dict.fromkeys(wrt)
        self.sizes: dict[Expr, int] = {size_var(n): v for n, v in sizes.items()}
        self.ops = topological_ops([y])
        self.leading: dict[Tensor, None] = dict(self.wrt)
        self.counts: dict[tuple[Expr, ...], int] = {}
        self.first: dict[Form, Formula] = {}
        """The first operation of each form."""
        self.active: dict[_Led, dict[Expr, None]] = {}
        """Its nodes through which a derivative reaches `wrt`, by the places of what leads."""
        self.passages: dict[tuple[_Led, tuple[int, ...]], _Passage] = {}
        """The same, and by the outputs that adjoints come from."""
        self.received: dict[Tensor, list[tuple[int, bool]]] = {y: []}
        self.needed: dict[Tensor, None] = {}
        self.needed_folds: dict[Op, dict[Expr, None]] = {}
        """Reductions needed themselves, as those of the first operation of the form."""
        self.fold_points: dict[Form, dict[Expr, int]] = {}
        self.walked = 0

    def total(self) -> int:
        """Adjoints, forward values, and reductions walked again."""
        for op in self.ops:
            if isinstance(op, (Compute, Scatter, Scan)):
                self._find_leading(op)
        for op in reversed(self.ops):
            heads = [t for t in outputs(op) if t in self.received and t in self.leading]
            if heads and isinstance(op, (Compute, Scatter, Scan)):
                self._through(op, heads)
        return self._adjoint_points() + self._forward_points() + self.walked

    def count(self, items: tuple[Expr, ...]) -> int:
        if items not in self.counts:
            self.counts[items] = count_points(items, self.sizes)
        return self.counts[items]

    def elements(self, t: Tensor | Op) -> int:
        extents = [int(evaluate((dim_expr(n),), {}, self.sizes)[0]) for n in t.shape]
        return math.prod(extents)

    # Which tensors and nodes a derivative flows through

    def _led(self, op: Formula) -> _Led:
        form, tensors = form_of(op)
        return form, tuple([t in self.leading for t in tensors])

    def _leads(self, led: _Led) -> dict[Tensor, None]:
        """The tensors that lead, of the first operation of the form."""
        form, flags = led
        _, tensors = form_of(self.first[form])
        return {t: None for t, leads in zip(tensors, flags, strict=True) if leads}

    def _find_leading(self, op: Formula) -> None:
        """Record the outputs of `op` through which a derivative reaches `wrt`."""
        led = self._led(op)
        first = self.first.setdefault(led[0], op)
        leads = self._leads(led)
        if led not in self.active:
            self.active[led] = _active_nodes(first, leads)
        active = self.active[led]
        if isinstance(first, Scan):
            moves = [any(e in active for e in scanned(first, [t])) for t in outputs(first)]
        elif isinstance(first, Compute):
            moves = [body in active for body in first.bodies]
        else:
            moves = [first.init in leads or any(u.value in active for u in first.updates)]
        self.leading.update({t: None for t, m in zip(outputs(op), moves, strict=True) if m})

    def _through(self, op: Formula, heads: Sequence[Tensor]) -> None:
        """Add what an operation adds that adjoints of some of its tensors pass through."""
        led = self._led(op)
        first, key = self.first[led[0]], (led, tuple([t.index for t in heads]))
        if key not in self.passages:
            to = self.passages[key] = _Passage(first, self._leads(led), self.active[led])
            self._pass(to, [t for t in outputs(first) if t.index in key[1]])
        found = self.passages[key]
        places = dict(zip(form_of(first)[1], form_of(op)[1], strict=True))
        for t, parts in found.received.items():
            self.received.setdefault(places[t], []).extend(parts)
        self.needed.update({places[t]: None for t in found.needed})
        if found.folds:
            self.needed_folds.setdefault(op, {}).update(found.folds)
        self.walked += found.walked

    def _pass(self, to: _Passage, heads: Sequence[Tensor]) -> None:
        if isinstance(to.op, Scan):
            self._through_scan(to, to.op, heads)
        else:
            self._through_formula(to, to.op, heads)

    # Reads that contribute to adjoints, and the values partial derivatives mention

    def _through_scan(self, to: _Passage, op: Scan, heads: Sequence[Tensor]) -> None:
        components = flowing_components(op.combiner, [t.index % op.combiner.arity for t in heads])
        factor = walks(op.combiner, components)
        to.walked += factor * self._scan_points(op)
        if factor:
            self._need_values(to, (*op.sources, op.condition, *op.start))
        contexts: Contexts = {}
        active = to.active

        def follow(e: Expr) -> list[Expr]:
            return [c for c in flow(e) if c in active]

        inner = tuple([i for i in (*op.scope, possible(op.condition)) if i is not TRUE])
        for n, e in enumerate(scanned(op, heads)):
            if e in active:
                items = tuple(op.axes) if n < len(op.start) else inner
                levels, sites = loop_levels((e,), items, follow, conditions=False)
                for level in levels:
                    self._through_level(to, level, contexts)
                self._through_folds(to, levels, sites)
        for e, around in contexts.items():
            self._receive_read(to, (*op.axes, *op.along), e, around)

    def _scan_points(self, op: Scan) -> int:
        """The steps; a state in cells is set cell by cell before them."""
        cells = 0 if op.cell is None else self.count(tuple(op.axes))
        return cells + self.count(op.scope)

    def _through_formula(
        self, to: _Passage, op: Compute | Scatter, heads: Sequence[Tensor]
    ) -> None:
        active = to.active

        def follow(e: Expr) -> list[Expr]:
            return [c for c in flow(e) if c in active]

        contexts: Contexts = {}
        for roots, items in _roots(op, heads):
            roots = [root for root in roots if root in active]
            levels, sites = loop_levels(roots, items, follow, conditions=False)
            for level in levels:
                self._through_level(to, level, contexts)
            self._through_folds(to, levels, sites)
        if isinstance(op, Scatter):
            self._through_scatter(to, op)
        for e, around in contexts.items():
            self._receive_read(to, op.axes, e, around)

    def _through_scatter(self, to: _Passage, op: Scatter) -> None:
        if op.init is not None and op.init in to.leading:
            to.receive(op.init, self.elements(op))
        factor = walks(op.combiner, [0])
        to.walked += factor * (self.elements(op) + self.count(tuple(op.axes)))
        moves = any(u.value in to.active for u in op.updates)
        if op.init is not None and (factor == 1 or (factor and moves)):
            to.needed[op.init] = None  # the walk starts from its values
        for u in op.updates:
            if u.value in to.active:
                self._need_values(to, (*u.indices, u.condition))
                self._need_values(to, (u.value,) if factor else ())

    def _through_level(self, to: _Passage, level: Level, contexts: Contexts) -> None:
        for e in level.need:
            if isinstance(e, Read):
                contexts.setdefault(e, []).append(level.around(e))
                self._need_values(to, e.indices)
            else:
                self._need_values(to, values_in_partials(e, to.active))

    def _receive_read(
        self, to: _Passage, own: Sequence[Axis], e: Expr, contexts: Sequence[tuple[Expr, ...]]
    ) -> None:
        """One distinct read, at the points of all loops where it stands.

        A formula with reductions has no points but theirs: beside them an occurrence outside
        comes for free where each element is read there once, unless they have fewer points.
        """
        if not isinstance(e, Read):
            return
        nests: dict[tuple[Axis, ...], int] = {}
        for items in contexts:
            axes = tuple([i for i in items if isinstance(i, Axis)])
            nests[axes] = max(nests.get(axes, 0), self.count(items))
        known = dict.fromkeys(own)
        inside = sum([n for axes, n in nests.items() if any(a not in known for a in axes)])
        outside = sum([n for axes, n in nests.items() if all(a in known for a in axes)])
        moved = dict.fromkeys(e.indices)
        once = all(a in moved or a.extent == 1 for a in own)
        points = max(outside, inside) if once else outside + inside
        to.receive(e.tensor, points, by_data=depends_on_data(*e.indices))

    def _through_folds(
        self, to: _Passage, levels: Sequence[Level], sites: Sequence[FoldSite]
    ) -> None:
        """The loops of reductions that are no sums, again."""
        components: dict[Expr, dict[int, None]] = {}
        for level in levels:
            for e in level.need:
                if isinstance(e, Reduce):
                    components.setdefault(first_component(e), {})[e.index] = None
        again: dict[Expr, int] = {}
        for site in sites:
            assert isinstance(site.key, Reduce)
            used = flowing_components(site.key.combiner, list(components[site.key]))
            points = walks(site.key.combiner, used) * self.count(site.points)
            again[site.key] = max(again.get(site.key, 0), points)
        to.walked += sum(again.values())

    def _need_values(self, to: _Passage, roots: Sequence[Expr]) -> None:
        for e in postorder(*roots):
            if isinstance(e, Read):
                to.needed[e.tensor] = None
            elif isinstance(e, Reduce):
                to.folds[first_component(e)] = None

    # The three terms

    def _adjoint_points(self) -> int:
        """Every adjoint but the head: its elements, or its contributions if they are more."""
        adjoints = [t for t in self.received if t in self.leading]
        total = 0
        for t in dict.fromkeys((*self.wrt, *adjoints)):
            if t is self.y:
                continue
            own = self.elements(t)
            parts = self.received.get(t, [])
            points = sum([n for n, _ in parts])
            scattered = any(by_data for _, by_data in parts)
            total += own + points if scattered else max(own, points)
        return total

    def _forward_points(self) -> int:
        """Forward operations behind the needed values, as written; reductions needed themselves."""
        whole = dict.fromkeys(topological_ops(self.needed))
        total = sum([self._points_of(op) for op in whole])
        for op, keys in self.needed_folds.items():
            if op not in whole:
                total += sum([self._fold_points(op).get(key, 0) for key in keys])
        return total

    def _points_of(self, op: Op) -> int:
        match op:
            case Placeholder() | Constant():
                return 0
            case Scan():
                return self._scan_points(op)
            case Scatter():
                domain = self.count(tuple(op.axes))
                return self.elements(op) + domain + sum(self._fold_points(op).values())
        folds = self._fold_points(op)
        return sum(folds.values()) if folds else self.elements(op)

    def _fold_points(self, op: Op) -> dict[Expr, int]:
        """The points of each nest of reduction loops the operation writes."""
        assert isinstance(op, (Compute, Scatter))
        form, _ = form_of(op)
        if form not in self.fold_points:
            self.fold_points[form] = self._points_of_folds(self.first[form])
        return self.fold_points[form]

    def _points_of_folds(self, op: Formula) -> dict[Expr, int]:
        assert isinstance(op, (Compute, Scatter))
        if isinstance(op, Compute):
            parts = [(op.bodies, tuple(op.axes))]
        else:
            parts = [((*u.indices, u.value, u.condition), tuple(op.axes)) for u in op.updates]
        points: dict[Expr, int] = {}
        for roots, items in parts:
            _, sites = loop_levels(roots, items, every_operand, conditions=True)
            for site in sites:
                points[site.key] = points.get(site.key, 0) + self.count(site.points)
        return points


def _active_nodes(op: Formula, leads: Mapping[Tensor, None]) -> dict[Expr, None]:
    """The nodes through which a derivative flows to tensors that lead."""
    active: dict[Expr, None] = {}
    for e in postorder(*op_expressions(op)):
        if isinstance(e, Read):
            if e.tensor in leads and e.dtype.is_float:
                active[e] = None
        elif any(c in active for c in flow(e)):
            active[e] = None
    return active


def _roots(
    op: Compute | Scatter, heads: Sequence[Tensor]
) -> list[tuple[Sequence[Expr], tuple[Expr, ...]]]:
    """The values a head reaches, with the axes and conditions around them: bodies side by side."""
    if isinstance(op, Compute):
        return [([op.bodies[t.index] for t in heads], tuple(op.axes))]
    return [([u.value], (*op.axes, possible(u.condition))) for u in op.updates]
