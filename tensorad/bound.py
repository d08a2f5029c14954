"""The yardstick of a gradient: how many iterations it may cost, read off the forward program.

Nothing here knows how gradients are built. Three terms: every adjoint is stored once or
receives one contribution per live read of its tensor; forward values that the partial
derivatives mention are computed once; a reduction that is no sum is walked again (once to find
the winner of a selection, twice otherwise).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tensorad.ir.combiner import Combiner
from tensorad.ir.expr import (
    ROUNDING,
    TRUE,
    ZERO,
    Apply,
    Axis,
    Call,
    Cast,
    Const,
    Expr,
    Param,
    Read,
    Reduce,
    Select,
    add,
    size_var,
)
from tensorad.ir.functions import flowing_args
from tensorad.ir.levels import FoldSite, Level, every_operand, fold_key, loop_levels
from tensorad.ir.points import count_points, depends_on_data, evaluate, possible
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

_FLAT: Final = frozenset((*ROUNDING, "sign"))
"""Operations whose derivative is zero wherever it exists."""
_LINEAR: Final = frozenset(("add", "sub", "neg"))
_CHOICES: Final = frozenset(("minimum", "maximum"))


def bound(y: Tensor, wrt: Iterable[Tensor], sizes: Mapping[str, int] | None = None) -> int:
    """The most iterations the gradient of `y` with respect to `wrt`, given a head, may cost.

    Raises:
        UserError: a symbolic size has no value in `sizes`.
    """
    return _Yardstick(y, list(wrt), sizes or {}).total()


class _Yardstick:
    """The analysis of one gradient."""

    def __init__(self, y: Tensor, wrt: Sequence[Tensor], sizes: Mapping[str, int]) -> None:
        self.y = y
        self.wrt = dict.fromkeys(wrt)
        self.sizes: dict[Expr, int] = {size_var(n): v for n, v in sizes.items()}
        self.ops = topological_ops([y])
        self.leading: dict[Tensor, None] = dict(self.wrt)
        self.active: dict[Op, dict[Expr, None]] = {}
        """Nodes of an operation through which a derivative reaches `wrt`."""
        self.counts: dict[tuple[Expr, ...], int] = {}
        self.received: dict[Tensor, list[tuple[int, bool]]] = {y: []}
        self.needed: dict[Tensor, None] = {}
        self.needed_folds: dict[tuple[Op, Expr], None] = {}
        self.walked = 0

    def total(self) -> int:
        """Adjoints, forward values, and reductions walked again."""
        for op in self.ops:
            self._find_leading(op)
        for op in reversed(self.ops):
            heads = [t for t in outputs(op) if t in self.received and t in self.leading]
            if heads and isinstance(op, Scan):
                self._through_scan(op, heads)
            elif heads and isinstance(op, (Compute, Scatter)):
                self._through_formula(op, heads)
        return self._adjoint_points() + self._forward_points() + self.walked

    def count(self, items: tuple[Expr, ...]) -> int:
        if items not in self.counts:
            self.counts[items] = count_points(items, self.sizes)
        return self.counts[items]

    def elements(self, t: Tensor | Op) -> int:
        extents = [int(evaluate((dim_expr(n),), {}, self.sizes)[0]) for n in t.shape]
        return math.prod(extents)

    # Which tensors and nodes a derivative flows through

    def _find_leading(self, op: Op) -> None:
        """Record the outputs of `op` through which a derivative reaches `wrt`."""
        if isinstance(op, (Placeholder, Constant)):
            return
        active = self.active[op] = self._active_nodes(op)
        if isinstance(op, Scan):
            for t in outputs(op):
                if any(e in active for e in _scanned(op, [t])):
                    self.leading[t] = None
            return
        tops = op.bodies if isinstance(op, Compute) else ()
        for t, body in zip(outputs(op), tops, strict=False):
            if body in active:
                self.leading[t] = None
        if isinstance(op, Scatter):
            init = op.init is not None and op.init in self.leading
            if init or any(u.value in active for u in op.updates):
                self.leading[outputs(op)[0]] = None

    def _active_nodes(self, op: Op) -> dict[Expr, None]:
        active: dict[Expr, None] = {}
        for e in postorder(*op_expressions(op)):
            if isinstance(e, Read):
                if e.tensor in self.leading and e.dtype.is_float:
                    active[e] = None
            elif any(c in active for c in flow(e)):
                active[e] = None
        return active

    # Reads that contribute to adjoints, and the values partial derivatives mention

    def _receive(self, t: Tensor, points: int, *, by_data: bool = False) -> None:
        self.received.setdefault(t, []).append((points, by_data))

    def _through_scan(self, op: Scan, heads: Sequence[Tensor]) -> None:
        components = flowing_components(op.combiner, [t.index % op.combiner.arity for t in heads])
        factor = walks(op.combiner, components)
        self.walked += factor * self.count((*op.axes, *op.along))
        if factor:
            self._need_values(op, (*op.sources, op.condition, *op.start))
        contexts: dict[Expr, list[tuple[Expr, ...]]] = {}
        active = self.active[op]

        def follow(e: Expr) -> list[Expr]:
            return [c for c in flow(e) if c in active]

        inner = tuple([i for i in (*op.axes, *op.along, possible(op.condition)) if i is not TRUE])
        for n, e in enumerate(_scanned(op, heads)):
            if e in active:
                items = tuple(op.axes) if n < len(op.start) else inner
                for level in loop_levels((e,), items, follow, conditions=False)[0]:
                    self._through_level(op, level, contexts)
        for e, around in contexts.items():
            self._receive_read(e, around)

    def _through_formula(self, op: Compute | Scatter, heads: Sequence[Tensor]) -> None:
        active = self.active[op]

        def follow(e: Expr) -> list[Expr]:
            return [c for c in flow(e) if c in active]

        contexts: dict[Expr, list[tuple[Expr, ...]]] = {}
        for root, items in _roots(op, heads):
            if root not in active:
                continue
            levels, sites = loop_levels((root,), items, follow, conditions=False)
            for level in levels:
                self._through_level(op, level, contexts)
            self._walk_again(levels, sites)
        if isinstance(op, Scatter):
            self._through_scatter(op)
        for e, around in contexts.items():
            self._receive_read(e, around)

    def _through_scatter(self, op: Scatter) -> None:
        if op.init is not None and op.init in self.leading:
            self._receive(op.init, self.elements(op))
        for u in op.updates:
            if u.value in self.active[op]:
                self._need_values(op, (*u.indices, u.condition))

    def _through_level(
        self, op: Op, level: Level, contexts: dict[Expr, list[tuple[Expr, ...]]]
    ) -> None:
        for e in level.need:
            if isinstance(e, Read):
                contexts.setdefault(e, []).append(level.around(e))
                self._need_values(op, e.indices)
            else:
                self._need_values(op, values_in_partials(e, self.active[op]))

    def _receive_read(self, e: Expr, contexts: Sequence[tuple[Expr, ...]]) -> None:
        """One distinct read; inside the loops of another occurrence it comes for free."""
        if not isinstance(e, Read):
            return
        by_axes: dict[frozenset[Expr], int] = {}
        for items in contexts:
            axes = frozenset([i for i in items if isinstance(i, Axis)])
            by_axes[axes] = max(by_axes.get(axes, 0), self.count(items))
        points = sum([n for axes, n in by_axes.items() if not any(axes < o for o in by_axes)])
        self._receive(e.tensor, points, by_data=depends_on_data(*e.indices))

    def _walk_again(self, levels: Sequence[Level], sites: Sequence[FoldSite]) -> None:
        """Count the reductions on the path that are no sums."""
        components: dict[Expr, dict[int, None]] = {}
        for level in levels:
            for e in level.need:
                if isinstance(e, Reduce):
                    components.setdefault(fold_key(e), {})[e.index] = None
        for site in sites:
            if isinstance(site.key, Reduce):
                combiner = site.key.combiner
                used = flowing_components(combiner, list(components[site.key]))
                self.walked += walks(combiner, used) * self.count(site.points)

    def _need_values(self, op: Op, roots: Sequence[Expr]) -> None:
        for e in postorder(*roots):
            if isinstance(e, Read):
                self.needed[e.tensor] = None
            elif isinstance(e, Reduce):
                self.needed_folds[op, fold_key(e)] = None

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
        """Every forward operation behind the needed values, and reductions needed alone."""
        whole = dict.fromkeys(topological_ops(self.needed))
        total = sum([self._points_of(op) for op in whole])
        for op, key in self.needed_folds:
            if op not in whole:
                total += self._fold_points(op).get(key, 0)
        return total

    def _points_of(self, op: Op) -> int:
        match op:
            case Placeholder() | Constant():
                return 0
            case Scan():
                return self.count((*op.axes, *op.along))
            case Scatter():
                domain = self.count(tuple(op.axes))
                return self.elements(op) + domain + sum(self._fold_points(op).values())
        folds = self._fold_points(op)
        return sum(folds.values()) if folds else self.elements(op)

    def _fold_points(self, op: Op) -> dict[Expr, int]:
        """The points of each nest of reduction loops the operation writes."""
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


def _roots(op: Compute | Scatter, heads: Sequence[Tensor]) -> list[tuple[Expr, tuple[Expr, ...]]]:
    """The values a head reaches, with the axes and conditions around them."""
    if isinstance(op, Compute):
        return [(op.bodies[t.index], tuple(op.axes)) for t in heads]
    return [(u.value, (*op.axes, possible(u.condition))) for u in op.updates]


def flow(e: Expr) -> Sequence[Expr]:
    """The operands whose change changes `e` smoothly."""
    if not e.dtype.is_float:
        return ()
    match e:
        case Select():
            return (e.then, e.orelse)
        case Cast():
            return (e.value,) if e.value.dtype.is_float else ()
        case Call():
            return () if e.op in _FLAT else e.args
        case Apply():
            return flowing_args(e)
        case Reduce():
            return [e.sources[n] for n in flowing_components(e.combiner, [e.index])]
    return ()


def values_in_partials(e: Expr, active: Mapping[Expr, None]) -> Sequence[Expr]:
    """The operands whose values the partial derivatives of `e` mention."""
    match e:
        case Select():
            return (e.cond,)
        case Reduce():
            used = flowing_components(e.combiner, [e.index])
            return (e.condition, *e.sources) if walks(e.combiner, used) else (e.condition,)
        case Call() if e.op in ("mul", "div"):
            left, right = e.args
            if e.op == "div":
                return e.args if right in active else (right,)
            return [v for v, other in ((left, right), (right, left)) if other in active]
        case Call() if e.op not in _LINEAR:
            return e.args
        case Apply():
            return e.args
    return ()


def flowing_components(c: Combiner, wanted: Sequence[int]) -> list[int]:
    """The components of the operands that the wanted results depend on smoothly.

    Elements of a step that are no states of their own have no component.
    """
    lhs: dict[Expr, int] = {p: n for n, p in enumerate(c.lhs)}
    rhs: dict[Expr, int] = {p: n for n, p in enumerate(c.rhs)}
    found: dict[int, None] = {}
    by_number = len(c.lhs) == len(c.rhs)
    stack = [n for n in wanted if c.identity[n].dtype.is_float]
    while stack:
        n = stack.pop()
        if n in found:
            continue
        found[n] = None
        for e in _reached(c.results[n]):
            if e in lhs or (by_number and e in rhs):
                stack.append(lhs[e] if e in lhs else rhs[e])
    return sorted(found)


def _reached(root: Expr) -> list[Expr]:
    """Nodes along `flow`."""
    done: dict[Expr, None] = {}
    stack = [root]
    while stack:
        e = stack.pop()
        if e not in done:
            done[e] = None
            stack.extend(flow(e))
    return list(done)


def walks(c: Combiner, components: Sequence[int]) -> int:
    """How often a fold is walked again for its derivative: 0 for sums, 1 for selections, 2."""
    if all(_adds(c, n) for n in components):
        return 0
    return 1 if all(_selects(c.results[n]) for n in components) else 2


def _scanned(op: Scan, heads: Sequence[Tensor]) -> list[Expr]:
    """The starts, then the sources, that the states in `heads` depend on smoothly."""
    used = flowing_components(op.combiner, [t.index % op.combiner.arity for t in heads])
    reached: dict[Expr, None] = {}
    for n in used:
        reached.update(dict.fromkeys(_reached(op.combiner.results[n])))
    state = dict.fromkeys(used)
    starts = [e if n in state else ZERO for n, e in enumerate(op.start)]
    elements = zip(op.combiner.rhs, op.sources, strict=True)
    return [*starts, *[e for p, e in elements if p in reached]]


def _adds(c: Combiner, n: int) -> bool:
    if n >= len(c.rhs):
        return False
    x, y, result = c.lhs[n], c.rhs[n], c.results[n]
    return result is add(x, y) or result is add(y, x)


def _selects(result: Expr) -> bool:
    """Whether the result always is one of the operands."""
    return all(
        isinstance(e, (Param, Select, Const)) or (isinstance(e, Call) and e.op in _CHOICES)
        for e in _reached(result)
    )
