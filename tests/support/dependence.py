"""Which elements a value depends on, found by evaluating formulas at single points.

Plain recursion over formulas and points: nothing of the calculus or of integer sets is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tensorad.ir.expr import Call, Cast, Expr, Read, Reduce, Select
from tensorad.ir.tensor import Compute, Scan, Scatter, Tensor
from tensorad.ir.visit import children, conjuncts, postorder
from tests.support.oracles import evaluate, points

Element = tuple[Tensor, tuple[int, ...]]
Point = dict[Expr, int]


class Dependence:
    """The elements of `wrt` that each element of a tensor depends on.

    Conditions on data count as possible either way; integers do not carry derivatives.
    """

    def __init__(self, wrt: Sequence[Tensor], sizes: Mapping[Expr, int] | None = None) -> None:
        self.wrt = dict.fromkeys(wrt)
        self.sizes = dict(sizes or {})
        self.known: dict[Element, frozenset[Element]] = {}

    def pattern(self, y: Tensor, shape: Sequence[int] | None = None) -> np.ndarray:
        """The boolean matrix d y / d wrt, row-major."""
        offsets, width = {}, 0
        for x in self.wrt:
            offsets[x] = width
            width += int(np.prod(x.shape))
        own = tuple(y.shape if shape is None else shape)
        result = np.zeros((int(np.prod(own)), width), bool)
        for row, at in enumerate(np.ndindex(*own)):
            for x, index in self.element(y, at):
                column = int(np.ravel_multi_index(index, x.shape)) if index else 0
                result[row, offsets[x] + column] = True
        return result

    def element(self, t: Tensor, at: tuple[int, ...]) -> frozenset[Element]:
        key = (t, at)
        if t in self.wrt:
            return frozenset([key])
        if key not in self.known:
            self.known[key] = frozenset(self._element(t, at))
        return self.known[key]

    def _element(self, t: Tensor, at: tuple[int, ...]) -> set[Element]:
        op = t.op
        if isinstance(op, Compute):
            return self.value(op.bodies[t.index], dict(zip(op.axes, at, strict=True)))
        if isinstance(op, Scatter):
            found = set() if op.init is None else set(self.element(op.init, at))
            for p in points(op.axes):
                for u in op.updates:
                    where = tuple([self.number(i, p) for i in u.indices])
                    if where == at and self.possible(u.condition, p):
                        found |= self.value(u.value, p)
            return found
        if isinstance(op, Scan):
            return self._scanned(op, at)
        return set()

    def _scanned(self, op: Scan, at: tuple[int, ...]) -> set[Element]:
        """States after each step (before it, if exclusive), in the order of the steps."""
        found: set[Element] = set()
        for row in points(op.axes):
            seen: set[Element] = set()
            steps = [{**row, **s} for s in points(op.along, row)]
            for p in reversed(steps) if op.reverse else steps:
                before = set(seen)
                for e in op.sources:
                    seen |= self.value(e, p)
                if tuple([self.number(i, p) for i in op.indices]) == at:
                    found |= before if op.exclusive else seen
        return found

    def value(self, root: Expr, p: Mapping[Expr, int]) -> set[Element]:
        """What a float expression depends on at a point."""
        match root:
            case Read():
                if not root.dtype.is_float:
                    return set()
                return set(
                    self.element(root.tensor, tuple([self.number(i, p) for i in root.indices]))
                )
            case Select():
                found: set[Element] = set()
                if self.possible(root.cond, p):
                    found |= self.value(root.then, p)
                if not self.certain(root.cond, p):
                    found |= self.value(root.orelse, p)
                return found
            case Reduce():
                found = set()
                for q in points(root.axes, p):
                    inside = {**p, **q}
                    if self.possible(root.condition, inside):
                        for e in root.sources:
                            found |= self.value(e, inside)
                return found
            case Call() | Cast():
                parts = [self.value(c, p) for c in children(root) if c.dtype.is_float]
                return set().union(*parts)
        return set()

    def number(self, e: Expr, p: Mapping[Expr, int]) -> int:
        return int(evaluate(e, {**self.sizes, **p}))

    def possible(self, condition: Expr, p: Mapping[Expr, int]) -> bool:
        return all(reads_data(c) or self.number(c, p) for c in conjuncts(condition))

    def certain(self, condition: Expr, p: Mapping[Expr, int]) -> bool:
        return all(not reads_data(c) and self.number(c, p) for c in conjuncts(condition))


def reads_data(e: Expr) -> bool:
    """Whether the value depends on more than indices."""
    return any(isinstance(n, (Read, Reduce)) for n in postorder(e))
