"""Which elements depend on which, found at run time: the indices of every read are computed.

Each operation gives one boolean matrix per tensor it reads; products of them along the program
give a pattern that holds every nonzero (data may still make an entry zero). What comes out of
blocks depends on all elements of all operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensorad.autodiff.local.box import Box
from tensorad.autodiff.local.linear import Term, body_terms
from tensorad.autodiff.local.views import (
    compute_terms,
    derivation_order,
    differentiable_inputs,
    view,
)
from tensorad.building import build
from tensorad.codegen.runtime.arena import Array
from tensorad.compiled import CompiledFunction
from tensorad.errors import InternalError
from tensorad.ir.arrays.elementwise import compute_axes
from tensorad.ir.combiner import row_major_position
from tensorad.ir.expr import (
    TRUE,
    Axis,
    Expr,
    Read,
    add,
    const,
    int_const,
    logical_and,
    read,
    select,
)
from tensorad.ir.order import any_node
from tensorad.ir.tensor import (
    Compute,
    Control,
    Op,
    Saved,
    Scan,
    Scatter,
    Tensor,
    dim_expr,
    dim_of,
    outputs,
)
from tensorad.ir.visit import placeholders, substitute
from tensorad.simplify.zeros.lift import both, split_condition
from tensorad.simplify.zeros.reduction_stages import is_read
from tensorad.sparse.cells import elements
from tensorad.sparse.scipy_bridge import ones_at, stacked_pattern
from tensorad.sparse.steps import steps_of


@dataclass(frozen=True, eq=False)
class Link:
    """Elements of `to` depend on elements of `source`: one pair per element of two tensors.

    Both hold row-major positions, -1 where a point does not count.
    """

    to: Tensor
    source: Tensor
    rows: Tensor
    columns: Tensor


class Dependence:
    """The pattern of d outputs / d wrt at given inputs."""

    def __init__(self, roots: Sequence[Tensor], wrt: Sequence[Tensor]) -> None:
        self.roots = tuple(roots)
        self.wrt = tuple(wrt)
        self.links = _links(roots, wrt)
        made = dict.fromkeys(t for k in self.links for t in (k.rows, k.columns))
        self.computed = list(made)
        self.inputs = placeholders(self.computed)
        """What the pattern depends on."""
        self._function: CompiledFunction | None = None

    def pattern(self, arrays: Sequence[Array]) -> tuple[Array, Array]:
        """(indptr, indices) for the values of `inputs`: rows of all outputs, columns of all wrt."""
        width = elements(*self.wrt)
        known: dict[Tensor, Any] = {}
        at = 0
        for x in self.wrt:
            size = elements(x)
            columns = np.arange(at, at + size)
            known[x] = ones_at(np.arange(size), columns, (size, width))
            at += size
        for k, rows, columns in self._pairs(arrays):
            live = (rows >= 0) & (columns >= 0)
            local = ones_at(rows[live], columns[live], (elements(k.to), elements(k.source)))
            through = local @ known[k.source]
            known[k.to] = known[k.to] + through if k.to in known else through
        return stacked_pattern([(known.get(y), elements(y)) for y in self.roots], width)

    def _pairs(self, arrays: Sequence[Array]) -> Iterable[tuple[Link, Array, Array]]:
        if not self.links:
            return
        if self._function is None:
            self._function = build(self.computed, self.inputs)
        found = self._function(*arrays)
        values = dict(zip(self.computed, [found] if len(self.computed) == 1 else found))
        for k in self.links:
            yield k, values[k.rows].ravel(), values[k.columns].ravel()


def _links(roots: Sequence[Tensor], wrt: Sequence[Tensor]) -> list[Link]:
    active = dict.fromkeys(wrt)
    links: list[Link] = []
    done: dict[Op, None] = {}
    for y in roots:
        for op in derivation_order(y):
            if op in done:
                continue
            done[op] = None
            viewed = view(op)
            inputs = _operands(op) or differentiable_inputs(viewed)
            if not any(t in active for t in inputs):
                continue
            for n, t in enumerate(outputs(op)):
                if t.dtype.is_float and t not in active:
                    links += _op_links(viewed, n, t, active)
            active.update(dict.fromkeys(t for t in outputs(op) if t.dtype.is_float))
    return links


def _op_links(op: Op, component: int, made: Tensor, active: dict[Tensor, None]) -> list[Link]:
    def wanted(e: Read) -> bool:
        return e.tensor in active

    if isinstance(op, Compute):
        terms = compute_terms(op, component, wanted)
        return [_link(made, op.axes, op.axes, t) for t in terms]
    if isinstance(op, Scatter):
        found = []
        for u in op.updates:
            for t in body_terms(0, u.value, wanted):
                reached = Term(0, t.coefficient, t.read, (), u.condition, t.guard)
                found.append(_link(made, u.indices, op.axes, reached))
        if op.init is not None and op.init in active:
            axes = compute_axes(op.shape)
            found.append(_link(made, axes, axes, Term(0, const(1, op.dtype), read(op.init, axes))))
        return found
    if isinstance(op, Scan):
        return _scan_links(op, made, wanted)
    if isinstance(op, (Control, Saved)):
        return [_whole_link(made, t) for t in _operands(op) if t in active]
    raise InternalError(f"{op.name} ({type(op).__name__}) has no links")


def _operands(op: Op) -> tuple[Tensor, ...]:
    """What goes into the blocks that something comes out of."""
    control = op.control if isinstance(op, Saved) else op
    return control.operands if isinstance(control, Control) else ()


def _whole_link(made: Tensor, source: Tensor) -> Link:
    axes = compute_axes((elements(made), elements(source)))
    op = Compute("index", axes, axes)
    return Link(made, source, *outputs(op))


def _scan_links(op: Scan, made: Tensor, wanted: Callable[[Read], bool]) -> list[Link]:
    """Every kept state depends on the elements of the steps before it."""
    steps = steps_of(op, made)
    found = []
    for along, formulas, seen in (((), op.start, TRUE), (op.along, op.sources, steps.before)):
        for n, e in enumerate(formulas):
            for t in body_terms(n, e, wanted):
                term = replace(t, condition=seen)
                found.append(_link(made, steps.places, (*steps.axes, *along), term))
    return found


def _link(made: Tensor, rows: Sequence[Expr], axes: Sequence[Axis], term: Term) -> Link:
    """The points of a term: the element it belongs to and the element it reads."""
    index, data = split_condition(logical_and(term.condition, term.guard))
    if any(any_node(e, is_read) for e in (*rows, *term.read.indices)):
        index = both(index, data)  # where they fail an index may be anything
    box = Box.around((*axes, *term.axes))
    counted = compute_axes(tuple([dim_of(n) for n in box.extents]))
    moved: dict[Expr, Expr] = {
        a: add(c, s) for a, c, s in zip(box.axes, counted, box.starts, strict=True)
    }
    live = both(box.inside(), [index])
    tensors = []
    for t, indices in ((made, rows), (term.read.tensor, term.read.indices)):
        place = row_major_position(indices, [*map(dim_expr, t.shape)])
        flat = select(live, place, int_const(-1))
        op = Compute("index", counted, (substitute(flat, moved),))
        tensors.append(outputs(op)[0])
    return Link(made, term.read.tensor, *tensors)
