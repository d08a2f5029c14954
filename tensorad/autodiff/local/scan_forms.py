"""The scans that derivatives read in the place of what the user wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

from tensorad.autodiff.local.box import Box
from tensorad.autodiff.local.selections import selection
from tensorad.autodiff.local.steps import derived_steps
from tensorad.ir.arrays.elementwise import compute_axes, same_dim
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import TRUE, ZERO, Axis, Expr, add, const, param, read
from tensorad.ir.tensor import Placeholder, Scan, Scatter, Tensor, dim_of, outputs
from tensorad.ir.visit import fresh_axes, postorder, substitute, substitute_all
from tensorad.simplify.index.quasi_affine import starts_at_zero

_traced: WeakKeyDictionary[Scan, Scan] = WeakKeyDictionary()


def traced_scan(op: Scan) -> Scan:
    """The scan with origins beside the states that only select: the identity is no operand.

    Its components begin with those of `op`, which it returns where nothing is selected. The
    origins of states in cells tell the steps apart; a start that is no identity has the origin
    `steps_of(op)`.
    """
    if op not in _traced:
        # as the scans of users do
        fresh = all(a is b for a, b in zip(op.start, op.combiner.identity, strict=True))
        traceable = op.combiner not in derived_steps and (fresh or op.cell is not None)
        chosen = selection(op.combiner) if traceable else None
        if chosen is None:
            return op
        position = ZERO if op.cell is None else Box.around(op.along).position()
        none = [const(-1, INT64) if fresh else steps_of(op) for _ in chosen.traced]
        _traced[op] = replace(
            op,
            sources=(*op.sources, *chosen.marks(position)),
            combiner=chosen.combiner,
            start=(*op.start, *none),
        )
    return _traced[op]


_as_scans: WeakKeyDictionary[Scatter, Scan] = WeakKeyDictionary()


def scatter_scan(op: Scatter) -> Scan:
    """A scatter as a scan of its updates, whose state lies in the cells of the result.

    The result is the last state.
    """
    if op not in _as_scans:
        (u,) = op.updates
        axes, box = compute_axes(op.shape), Box.around(op.axes)
        start: Expr = op.combiner.identity[0]
        if op.init is not None:
            start = read(op.init, axes)
        mapping = fresh_axes(op.axes)
        *parts, value, condition = substitute_all(
            (*box.place(), *u.indices, u.value, u.condition), mapping
        )
        n = len(op.axes)
        _as_scans[op] = Scan(
            op.name,
            axes,
            tuple([a for a in (mapping[a] for a in op.axes) if isinstance(a, Axis)]),
            (value,),
            op.combiner,
            (start,),
            box.shape(op.name),
            tuple(parts[:n]),
            condition,
            source=op.source,
            cell=tuple(parts[n:]),
            target=outputs(Placeholder(op.name, op.shape, op.dtype))[0],
        )
    return _as_scans[op]


def with_addend(t: Tensor, axes: Sequence[Axis], value: Expr) -> Tensor | None:
    """The states t that a scan keeps, plus a value over `axes` at each of its elements.

    None unless every element is kept by one step, and no step asks what the one before kept.
    """
    op = t.op
    if not isinstance(op, Scan) or not _keeps_each_once(op, t):
        return None
    combiner = op.combiner
    if combiner.lhs[t.index] in dict.fromkeys(postorder(*combiner.results)):
        return None
    extra = param("rest", value.dtype)
    results = list(combiner.results)
    results[t.index] = add(results[t.index], extra)
    made = replace(combiner, rhs=(*combiner.rhs, extra), results=tuple(results))
    derived_steps.add(made)
    here = substitute(value, dict(zip(axes, op.indices, strict=True)))
    return outputs(replace(op, sources=(*op.sources, here), combiner=made))[t.index]


def _keeps_each_once(op: Scan, t: Tensor) -> bool:
    """Whether each element of t is the state after one step, and each step keeps one."""
    kept = op.cell is None and op.condition is TRUE and not op.exclusive
    whole = [
        isinstance(i, Axis) and starts_at_zero(i) and same_dim(dim_of(i.upper), n)
        for i, n in zip(op.indices, t.shape, strict=True)
    ]
    distinct = len(dict.fromkeys(op.indices)) == len(op.indices) == len(op.scope)
    return kept and t.index < op.combiner.arity and all(whole) and distinct


def steps_of(op: Scan) -> Expr:
    """How many steps the box around them has room for."""
    return Box.around(op.along).size()
