"""Reverse mode: adjoints from an output back to the tensors it depends on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from tensorad.autodiff.adjoint import Adjoint, Contribution, Target, Uses, store, zeros
from tensorad.autodiff.checks import check_head_shape, check_output, check_wrt
from tensorad.autodiff.linear import Term, body_terms, times
from tensorad.autodiff.provenance import remember
from tensorad.autodiff.scans import scan_adjoints
from tensorad.autodiff.views import (
    compute_terms,
    derivation_order,
    differentiable_inputs,
    view,
)
from tensorad.errors import GradError
from tensorad.ir.dtypes import to_dtype
from tensorad.ir.elementwise import compute_axes
from tensorad.ir.expr import (
    TRUE,
    Axis,
    Call,
    Expr,
    Read,
    cast,
    const,
    logical_and,
    read,
    select,
)
from tensorad.ir.tensor import Compute, Constant, Op, Scan, Scatter, Shape, Tensor, outputs
from tensorad.ir.visit import reads, substitute

Head = Tensor | np.ndarray | np.number | float | int | None


def vjp(
    y: Tensor, wrt: Sequence[Tensor] | Tensor, head: Head = None, *, strict: bool = False
) -> list[Tensor]:
    """sum over o of head[..., o] * d y[o] / d x, for every x of `wrt`.

    Args:
        y: float tensor of any shape.
        wrt: the tensors to differentiate by; inputs or intermediates, float.
        head: shape (*batch, *y.shape), an array or number (broadcast); omitted: 1 for a 0-d
            y, otherwise the identity (the full Jacobian, batch = y.shape).
        strict: raise where y does not depend on a tensor, instead of returning zeros.
    Returns:
        one tensor of shape (*batch, *x.shape) per x.
    Raises:
        GradError: an integer tensor, an unreachable one with `strict`, a bad argument.
        ShapeError: the head does not end in y's shape.
    """
    check_output(y)
    tensors = check_wrt(wrt)
    seed, batch = head_adjoint(y, head)
    results = Sweep(y, tensors, batch).run(seed, strict)
    return remember(results, [y], tensors, partial(vjp, y, tensors, head, strict=strict))


def head_adjoint(y: Tensor, head: Head) -> tuple[Adjoint, Shape]:
    """The adjoint of y itself, and the shape of its leading batch axes."""
    if head is None:
        if not y.shape:
            return Adjoint((), const(1, y.dtype)), ()
        return _identity(y), y.shape
    if isinstance(head, (int, float, np.number)):
        return Adjoint(compute_axes(y.shape), const(float(head), y.dtype)), ()
    if isinstance(head, np.ndarray):
        head = _constant(head, y)
    if not isinstance(head, Tensor):
        raise GradError(
            f"the head must be a tensor, an array or a number, got {type(head).__name__}.",
            hint=f"use placeholder({y.shape}, name='H').",
        )
    check_head_shape(y, head)
    axes = compute_axes(head.shape)
    adjoint = Adjoint(axes, cast(read(head, axes), y.dtype))
    return adjoint, head.shape[: head.ndim - y.ndim]


def _constant(array: np.ndarray, y: Tensor) -> Tensor:
    numbers = np.array(array, dtype=y.dtype) if array.dtype.kind in "biu" else np.array(array)
    return outputs(Constant("head", numbers, to_dtype(numbers.dtype)))[0]


def _identity(y: Tensor) -> Adjoint:
    batch, own = compute_axes(y.shape), compute_axes(y.shape)
    same = logical_and(*[b == o for b, o in zip(batch, own, strict=True)])
    return Adjoint((*batch, *own), select(same, const(1, y.dtype), const(0, y.dtype)))


class Sweep:
    """One pass over the operations between `wrt` and y, consumers first."""

    def __init__(self, y: Tensor, wrt: Sequence[Tensor], batch: Shape) -> None:
        self.y = y
        self.wrt = dict.fromkeys(wrt)
        self.batch = batch
        self.order = derivation_order(y)
        self.active = self._active()
        self.targets: dict[Tensor, Target] = {}
        self.done: dict[Tensor, Adjoint | None] = {}
        self.needed: dict[Tensor, None] = {}
        """Forward values that the coefficients so far read."""

    def _active(self) -> dict[Tensor, None]:
        """The tensors that depend on one of `wrt` (those included)."""
        active: dict[Tensor, None] = dict(self.wrt)
        for op in self.order:
            if any(t in active for t in differentiable_inputs(view(op))):
                active.update(dict.fromkeys(t for t in outputs(op) if t.dtype.is_float))
        return active

    def run(self, seed: Adjoint, strict: bool) -> list[Tensor]:
        """The adjoints of `wrt`."""
        self.done[self.y] = seed
        for op in reversed(self.order):
            self._visit(op)
        return [self._result(x, strict) for x in self.wrt]

    def _result(self, x: Tensor, strict: bool) -> Tensor:
        name = f"d{x.name}"
        adjoint = self.done.get(x)
        if adjoint is None and x in self.targets:
            adjoint = self.targets[x].finish(name, True, Uses(0, False))
        if adjoint is None:
            if strict:
                raise GradError(
                    f"{self.y.name} does not depend on {x.name}.",
                    hint="remove it from wrt, or leave out strict=True to get zeros.",
                )
            return zeros(name, (*self.batch, *x.shape), x)
        return store(adjoint, name)

    def _wanted(self, e: Read) -> bool:
        return e.tensor in self.active

    def _visit(self, op: Op) -> None:
        made = outputs(op)
        if not any(t in self.targets or t in self.done for t in made):
            return
        viewed = view(op)
        flows = any(t in self.active for t in differentiable_inputs(viewed))
        if isinstance(viewed, Compute):
            for c, t in enumerate(made):
                terms = compute_terms(viewed, c, self._wanted) if flows else []
                terms = self._read_back(viewed, t, terms)
                adjoint = self._finish(t, Uses(len(terms), _pointwise(viewed, terms)))
                if adjoint is not None:
                    for term in terms:
                        self._push_term(viewed, adjoint, term)
        elif isinstance(viewed, Scatter) and flows:
            self._visit_scatter(viewed, made[0])
        elif isinstance(viewed, Scan) and flows:
            self._visit_scan(viewed, made)
        else:
            for t in made:
                self._finish(t, Uses(0, False))

    def _read_back(self, op: Compute, made: Tensor, terms: list[Term]) -> list[Term]:
        """Coefficients that contain the value of `made` read it, if it is needed anyway."""
        root = op.bodies[made.index]
        if made in self.needed and isinstance(root, Call) and root.op != "add":
            value: dict[Expr, Expr] = {root: read(made, op.axes)}
            terms = [replace(t, coefficient=substitute(t.coefficient, value)) for t in terms]
        for t in terms:
            self.needed.update(dict.fromkeys(r.tensor for r in reads(t.coefficient)))
        return terms

    def _finish(self, t: Tensor, uses: Uses) -> Adjoint | None:
        if t in self.done:
            return self.done[t]
        target = self.targets.get(t)
        if target is None:
            return None
        self.done[t] = target.finish(f"d{t.name}", t in self.wrt, uses)
        return self.done[t]

    def _push(self, tensor: Tensor, contribution: Contribution) -> None:
        if tensor not in self.targets:
            self.targets[tensor] = Target(tensor, self.batch)
        self.targets[tensor].contributions.append(contribution)

    def _push_term(self, op: Compute, adjoint: Adjoint, term: Term) -> None:
        contribution = _contribution(op, adjoint, term)
        if term.at_winner is not None:
            direct = _contribution(op, adjoint, term.at_winner)
            contribution = replace(contribution, sparse=direct)
        self._push(term.read.tensor, contribution)

    def _visit_scatter(self, op: Scatter, made: Tensor) -> None:
        """out[f(p)] += v(p): each point's adjoint is the head where the point went."""
        if not op.combiner.is_sum:
            raise GradError(
                f"scatter {op.name} combines with {op.combiner.name}; "
                "only combine='sum' has a derivative.",
                hint="write the operator as a reduction with that combiner.",
            )
        adjoint = self._finish(made, Uses(len(op.updates) + 1, False))
        if adjoint is None:
            return
        for u in op.updates:
            where = u.indices
            for t in body_terms(0, u.value, self._wanted):

                def weight(
                    batch: Sequence[Expr], where: tuple[Expr, ...] = where, t: Term = t
                ) -> Expr:
                    head = cast(adjoint.at((*batch, *where)), t.coefficient.dtype)
                    return times(head, t.coefficient)

                self._push(
                    t.read.tensor,
                    Contribution(op.axes, u.condition, t.read.indices, weight, t.guard),
                )
        if op.init is not None and op.init in self.active:
            own = compute_axes(op.shape)
            self._push(
                op.init, Contribution(own, TRUE, own, lambda batch: adjoint.at((*batch, *own)))
            )

    def _visit_scan(self, op: Scan, made: tuple[Tensor, ...]) -> None:
        heads: list[Tensor | None] = []
        for t in made:
            adjoint = self._finish(t, Uses(1, False))
            heads.append(None if adjoint is None else store(adjoint, f"d{t.name}"))
        if all(h is None for h in heads):
            return
        for source, adjoint_tensor in zip(
            op.sources, scan_adjoints(op, heads, len(self.batch)), strict=True
        ):
            if adjoint_tensor is not None and source in self.active:
                self._push_whole(source, adjoint_tensor)

    def _push_whole(self, tensor: Tensor, adjoint: Tensor) -> None:
        """All of `adjoint` (batch axes first) flows to the same elements of `tensor`."""
        own = compute_axes(tensor.shape)
        self._push(
            tensor, Contribution(own, TRUE, own, lambda batch: read(adjoint, (*batch, *own)))
        )


def _contribution(op: Compute, adjoint: Adjoint, term: Term) -> Contribution:
    coefficient = term.coefficient

    def weight(batch: Sequence[Expr]) -> Expr:
        head = cast(adjoint.at((*batch, *op.axes)), coefficient.dtype)
        return times(head, coefficient)

    axes = (*op.axes, *term.axes)
    return Contribution(axes, term.condition, term.read.indices, weight, term.guard)


def _pointwise(op: Compute, terms: Sequence[Term]) -> bool:
    """Whether every term uses each point of the output for one element of its tensor."""
    return all(
        not t.axes and _covers(t.read.indices, op.axes) and t.condition is TRUE for t in terms
    )


def _covers(indices: Sequence[Expr], axes: Sequence[Axis]) -> bool:
    found = [i for i in indices if isinstance(i, Axis)]
    return len({*found}) == len(found) == len(indices) and all(a in set(found) for a in axes)
