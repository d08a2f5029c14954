"""Memoised pass results: equal formulas over other axes and tensors are solved once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from tensorad import config
from tensorad.errors import InternalError
from tensorad.ir.analysis.alike import Key, Numbering
from tensorad.ir.analysis.facts import facts_about
from tensorad.ir.expr import Axis, Expr, Read, Reduce, axis, read, reduce_expr
from tensorad.ir.order import AXIS, READ, REDUCE, sizes_in
from tensorad.ir.tensor import Constant, Tensor
from tensorad.ir.visit import free_leaves, postorder, reads, rebuild
from tensorad.process import Guard, memo

Nominal = Axis | Tensor
"""What a memoised formula is renamed in."""


def signature(axes: Sequence[Axis], body: Expr) -> tuple[Key, list[Nominal]]:
    """(a key that equal formulas share, the axes and tensors it abstracts from, in order).

    Integer tensors themselves belong to the key (their values' bounds matter), and so do the
    facts about the sizes used.
    """
    numbering = Numbering(_described)
    numbering.axes(axes)
    roots = numbering.expressions((body,))
    bounds = [b for a in axes for b in (a.lower, a.upper, a.step)]
    facts = facts_about(sizes_in(*bounds, body))
    key = numbering.key(len(axes), roots, facts, config.current().isl_operations)
    own = [e for e in numbering.names if isinstance(e, Axis)]
    return key, [*own, *numbering.numbered]


def _described(t: Tensor) -> object:
    return (t.dtype, t.shape) if t.dtype.is_float else t


_NAMED: Final = AXIS | READ | REDUCE
"""Formulas without such parts are the same under any names."""


def renamed(root: Expr, mapping: dict[Nominal, Nominal]) -> Expr:
    """The formula over other axes and tensors; reductions get axes of their own."""
    new: dict[Expr, Expr] = {}
    _rename_into(new, root, mapping)
    return new[root]


def _rename_into(new: dict[Expr, Expr], root: Expr, mapping: dict[Nominal, Nominal]) -> None:
    for e in postorder(root):
        if e in new:
            continue
        if not e.kinds & _NAMED:
            new[e] = e
            continue
        match e:
            case Axis():
                image = mapping.get(e)
                new[e] = image if isinstance(image, Axis) else _fresh(new, e, mapping)
            case Read(tensor=t):
                image = mapping.get(t, t)
                tensor = image if isinstance(image, Tensor) else t
                new[e] = read(tensor, tuple([new[i] for i in e.indices]))
            case Reduce():
                new[e] = _reduce(new, e, mapping)
            case _:
                new[e] = rebuild(e, new)


def _fresh(new: dict[Expr, Expr], a: Axis, mapping: dict[Nominal, Nominal]) -> Axis:
    for bound in (a.lower, a.upper, a.step):
        _rename_into(new, bound, mapping)
    return axis(a.name, new[a.lower], new[a.upper], new[a.step])


def _reduce(new: dict[Expr, Expr], e: Reduce, mapping: dict[Nominal, Nominal]) -> Expr:
    axes: list[Axis] = []
    for a in e.axes:
        _rename_into(new, a, mapping)
        image = new[a]
        if isinstance(image, Axis):
            axes.append(image)
    sources = tuple([new[s] for s in e.sources])
    return reduce_expr(e.combiner, sources, tuple(axes), new[e.condition], e.index)


def _one_of_equal_tables(*roots: Expr) -> dict[Nominal, Nominal]:
    """Constant tensors -> the first one with the same elements."""
    found: dict[Nominal, Nominal] = {}
    first: list[tuple[Tensor, np.ndarray]] = []
    for r in reads(*roots):
        op = r.tensor.op
        if isinstance(op, Constant) and r.tensor not in found:
            same = [t for t, array in first if np.array_equal(array, op.array)]
            found[r.tensor] = same[0] if same else r.tensor
            first.append((r.tensor, op.array))
    return found


def demand_same(axes: Sequence[Axis], remembered: Expr, derived: Expr) -> None:
    """What stands for a result must be what deriving it anew gives, to the names of its loops.

    Raises:
        InternalError: it is another formula.
    """
    mapping: dict[Nominal, Nominal] = {a: a for a in axes}
    mapping.update(_one_of_equal_tables(remembered, derived))
    remembered, derived = renamed(remembered, mapping), renamed(derived, mapping)
    (one, here), (two, there) = signature(axes, remembered), signature(axes, derived)
    free = free_leaves(remembered, derived)
    same = len(here) == len(there) and all(
        a is b or (isinstance(a, Axis) and isinstance(b, Axis) and not (a in free or b in free))
        for a, b in zip(here, there, strict=True)
    )
    if one != two or not same:
        raise InternalError(f"remembered:\n{remembered}\nderived anew:\n{derived}")


class BodyMemo:
    """Results of a function (axes, body) -> body, by signature; the oldest are forgotten."""

    def __init__(self, capacity: int = 4096) -> None:
        self._guard = Guard()
        self._memo: OrderedDict[object, tuple[list[Nominal], Expr]] = memo(
            OrderedDict(), self._guard
        )
        self._capacity = capacity

    def get(
        self, axes: Sequence[Axis], body: Expr, solve: Callable[[Sequence[Axis], Expr], Expr]
    ) -> Expr:
        """solve(axes, body), or what it gave for an equal formula, renamed."""
        key, own = signature(axes, body)
        with self._guard.lock:
            known = self._memo.get(key)
        if known is not None:
            result = renamed(known[1], dict(zip(known[0], own, strict=True)))
            if "certify" in config.current().debug:
                demand_same(axes, result, solve(axes, body))
            return result
        result = solve(axes, body)
        with self._guard.lock:
            self._memo[key] = (own, result)
            if len(self._memo) > self._capacity:
                self._memo.popitem(last=False)
        return result
