"""Forward mode: tangents from inputs to an output, from the same linear terms as reverse mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tensorad.autodiff.adjoint import zeros
from tensorad.autodiff.checks import check_output, check_wrt
from tensorad.autodiff.linear import Term, body_terms, times
from tensorad.autodiff.scans import tangent_scan
from tensorad.autodiff.views import (
    compute_terms,
    derivation_order,
    differentiable_inputs,
    view,
)
from tensorad.errors import GradError, ShapeError
from tensorad.ir.combiner import sum_combiner
from tensorad.ir.dtypes import to_dtype
from tensorad.ir.elementwise import compute_axes, same_dim
from tensorad.ir.expr import Axis, Expr, Read, add, cast, const, read, reduce_expr
from tensorad.ir.tensor import (
    Compute,
    Constant,
    Op,
    Scan,
    Scatter,
    Tensor,
    Update,
    format_shape,
    outputs,
)
from tensorad.ir.visit import copy_bodies, fresh_axes, substitute
from tensorad.simplify.nonzeroness import guarded


def jvp(y: Tensor, tangents: Mapping[Tensor, Tensor | np.ndarray | float]) -> Tensor:
    """sum over x of d y / d x applied to the tangent of x.

    Args:
        y: float tensor.
        tangents: for each x (input or intermediate, float) a tensor, array or number of
            x's shape.
    Returns:
        a tensor of y's shape and dtype.
    Raises:
        GradError: an integer tensor or a bad argument.
        ShapeError: a tangent's shape differs from its tensor's.
    """
    check_output(y)
    if not isinstance(tangents, Mapping):
        raise GradError(
            f"the tangents must be a dict from tensors, got {type(tangents).__name__}.",
            hint="write jvp(Y, {X: dX}).",
        )
    given = {x: _tangent(x, t) for x, t in zip(check_wrt(tangents), tangents.values(), strict=True)}
    result = Push(given).run(y)
    return zeros(f"d{y.name}", y.shape, y) if result is None else result


def _tangent(x: Tensor, value: Tensor | np.ndarray | float) -> Tensor:
    if isinstance(value, (int, float, np.number)):
        axes = compute_axes(x.shape)
        return outputs(Compute(f"d{x.name}", axes, (const(float(value), x.dtype),)))[0]
    if isinstance(value, np.ndarray):
        copy = np.array(value, dtype=x.dtype) if value.dtype.kind in "biu" else np.array(value)
        value = outputs(Constant(f"d{x.name}", copy, to_dtype(copy.dtype)))[0]
    if not isinstance(value, Tensor):
        raise GradError(
            f"the tangent of {x.name} must be a tensor, an array or a number, "
            f"got {type(value).__name__}."
        )
    fits = value.ndim == x.ndim and all(map(same_dim, value.shape, x.shape))
    if not fits:
        raise ShapeError(
            f"the tangent of {x.name} has shape {format_shape(value.shape)}, but {x.name} has "
            f"shape {format_shape(x.shape)}.",
            hint="a tangent has the shape of its tensor.",
        )
    return value


class Push:
    """One pass over the operations an output depends on, producers first."""

    def __init__(self, given: Mapping[Tensor, Tensor]) -> None:
        self.given = dict(given)
        self.tangents: dict[Tensor, Tensor] = dict(given)

    def run(self, y: Tensor) -> Tensor | None:
        """The tangent of y; None if it is zero."""
        for op in derivation_order(y):
            viewed = view(op)
            if any(t in self.tangents for t in differentiable_inputs(viewed)):
                for t, tangent in zip(outputs(op), self._push(viewed, outputs(op)), strict=True):
                    if tangent is not None and t not in self.given:
                        self.tangents[t] = tangent
        return self.tangents.get(y)

    def _push(self, op: Op, made: Sequence[Tensor]) -> Sequence[Tensor | None]:
        if isinstance(op, Compute):
            return [self._compute(op, c, t) for c, t in enumerate(made)]
        if isinstance(op, Scatter):
            return [self._scatter(op)]
        if isinstance(op, Scan):
            return self._scan(op, made)
        return [None for _ in made]

    def _scan(self, op: Scan, made: Sequence[Tensor]) -> list[Tensor | None]:
        """The tangents of `made`, the first components' states of the viewed scan."""

        def moved(e: Expr) -> Expr | None:
            terms = body_terms(0, e, self._wanted) if e.dtype.is_float else []
            total: Expr | None = None
            for t in terms:
                part = guarded(t.guard, times(self._tangent_read(t), t.coefficient))
                total = part if total is None else add(total, part)
            return None if total is None else cast(total, e.dtype)

        found = tangent_scan(op, [moved(e) for e in op.start], [moved(e) for e in op.sources])
        size, kept = op.combiner.arity, len(made) // 3
        own = outputs(op)
        return [found.get(own[t.index // kept * size + t.index % kept]) for t in made]

    def _wanted(self, e: Read) -> bool:
        return e.tensor in self.tangents

    def _compute(self, op: Compute, component: int, made: Tensor) -> Tensor | None:
        found = compute_terms(op, component, self._wanted)
        terms = [t.at_winner or t for t in found]
        if not terms:
            return None
        body = directional(terms, self._read, made)
        axes, bodies = copy_bodies(op.axes, (body,))
        return outputs(Compute(f"d{made.name}", axes, bodies))[0]

    def _read(self, e: Read) -> Expr:
        return read(self.tangents[e.tensor], e.indices)

    def _scatter(self, op: Scatter) -> Tensor | None:
        if not op.combiner.is_sum:
            raise GradError(
                f"scatter {op.name} combines with {op.combiner.name}; "
                "only combine='sum' has a derivative.",
                hint="write the operator as a reduction with that combiner.",
            )
        mapping = fresh_axes(op.axes)
        axes = tuple([a for a in mapping.values() if isinstance(a, Axis)])
        updates = []
        for u in op.updates:
            value: Expr | None = None
            for t in body_terms(0, u.value, self._wanted):
                product = guarded(t.guard, times(self._tangent_read(t), t.coefficient))
                value = product if value is None else add(value, product)
            if value is not None:
                indices = tuple([substitute(i, mapping) for i in u.indices])
                new = cast(substitute(value, mapping), op.dtype)
                updates.append(Update(indices, new, substitute(u.condition, mapping)))
        init = None if op.init is None else self.tangents.get(op.init)
        if not updates:
            return init
        made = Scatter(
            f"d{op.name}", op.shape, op.dtype, axes, tuple(updates), op.combiner, init, op.source
        )
        return outputs(made)[0]

    def _tangent_read(self, t: Term) -> Expr:
        return cast(self._read(t.read), t.coefficient.dtype)


def directional(terms: Sequence[Term], tangent: Callable[[Read], Expr], made: Tensor) -> Expr:
    """The sum of the terms with `tangent(read)` in the place of each read.

    Terms of one reduction share one sum over its axes.
    """
    groups: dict[tuple[tuple[Axis, ...], Expr], Expr] = {}
    for t in terms:
        value = cast(tangent(t.read), t.coefficient.dtype)
        part = guarded(t.guard, times(value, t.coefficient))
        part = cast(part, made.dtype)
        key = (t.axes, t.condition)
        groups[key] = part if key not in groups else add(groups[key], part)
    total: Expr | None = None
    for (axes, condition), source in groups.items():
        if axes:
            part = reduce_expr(sum_combiner(made.dtype), (source,), axes, condition)
        else:
            part = guarded(condition, source)
        total = part if total is None else add(total, part)
    return const(0, made.dtype) if total is None else total
