"""The scans that derivatives read in the place of what the user wrote."""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakKeyDictionary

from tensorad.autodiff.box import Box
from tensorad.autodiff.selections import selection
from tensorad.autodiff.steps import derived_steps
from tensorad.ir.dtypes import INT64
from tensorad.ir.elementwise import compute_axes
from tensorad.ir.expr import ZERO, Axis, Expr, const, read
from tensorad.ir.tensor import Scan, Scatter
from tensorad.ir.visit import fresh_axes, substitute_all

_traced: WeakKeyDictionary[Scan, Scan] = WeakKeyDictionary()


def traced_scan(op: Scan) -> Scan:
    """The scan with origins beside the states that only select: the identity is no operand.

    Its components begin with those of `op`, which it returns where nothing is selected. The
    origins of states in cells tell the steps apart; a start that is no identity has the origin
    `steps_of(op)`.
    """
    if op not in _traced:
        fresh = _starts_fresh(op)
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
            box.shape(),
            tuple(parts[:n]),
            condition,
            source=op.source,
            cell=tuple(parts[n:]),
        )
    return _as_scans[op]


def _starts_fresh(op: Scan) -> bool:
    """Whether the scan starts from its combiner's identity, as the user's scans do."""
    return all(a is b for a, b in zip(op.start, op.combiner.identity, strict=True))


def steps_of(op: Scan) -> Expr:
    """How many steps the box around them has room for."""
    return Box.around(op.along).size()
