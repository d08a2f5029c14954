"""The seed's names: the Jacobian of one formula, deltas and all, and the steps that shrink it."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.autodiff.checks import check_output, check_wrt
from tensorad.autodiff.heads import Heads
from tensorad.autodiff.local.linear import InMode, Term
from tensorad.autodiff.local.views import compute_terms, differentiable_inputs, view
from tensorad.autodiff.reverse import vjp
from tensorad.errors import DefinitionError, GradError, ShapeError
from tensorad.ir.arrays.arguments import check_tensor
from tensorad.ir.arrays.elementwise import compute_axes, same_dim
from tensorad.ir.combiner import sum_combiner
from tensorad.ir.expr import (
    Axis,
    Expr,
    axis,
    cast,
    logical_and,
    mul,
    promote,
    read,
    reduce_expr,
    summed,
)
from tensorad.ir.tensor import Compute, Tensor, dim_expr, format_shape, outputs
from tensorad.ir.visit import copy_bodies
from tensorad.simplify.formula.inline import inline_non_reductions
from tensorad.simplify.zeros.lift import guarded
from tensorad.simplify.zeros.passes import nonzero_body


def jacobian_recursive(
    y: Tensor | Sequence[Tensor],
    wrt: Sequence[Tensor] | Tensor,
    head: Heads = None,
    *,
    strict: bool = False,
) -> list[Tensor]:
    """`vjp` under its 2018 name: gradients of y by each of `wrt`, times the head.

    Source: "TVM-level automatic differentiation" (notebook, 2018).
    """
    return vjp(y, wrt, head, strict=strict)


def direct_jacobian(y: Tensor, x: Tensor, optimize: bool = True) -> Tensor:
    """The Jacobian of y by the reads of x in y's own formula.

    Every read x[f] becomes the delta [jac_i0 == f0 and jac_i1 == f1 ...].

    Raises:
        GradError: y's formula does not read x.
    Source: "TVM-level automatic differentiation" (notebook, 2018), "How it works internally".
    """
    check_output(y)
    check_wrt([x])
    op = view(y.op)
    direct = [t.name for t in differentiable_inputs(op)]
    wanted = InMode(lambda e: e.tensor is x, "reverse")
    terms = compute_terms(op, y.index, wanted) if isinstance(op, Compute) else []
    if not terms or not isinstance(op, Compute):
        raise GradError(
            f"{y.name} does not read {x.name} directly.",
            where=f"{y.name} reads {', '.join(direct) or 'no float tensor'}",
            hint="use JacobianRecursive or jacobian, which go through intermediate tensors.",
        )
    names = tuple(f"jac_i{d}" for d in range(x.ndim))
    jac = compute_axes(x.shape, names)
    total = summed(_delta_term(t, jac, y) for t in terms)
    if total is None:
        raise GradError(f"{y.name} does not depend on {x.name}.")
    axes, bodies = copy_bodies((*op.axes, *jac), (total,))
    made = outputs(Compute(f"{y.name}.jacobian", axes, bodies, op.source))[0]
    return optimize_and_lift(made) if optimize else made


def _delta_term(t: Term, jac: tuple[Axis, ...], y: Tensor) -> Expr:
    delta = logical_and(*[j == i for j, i in zip(jac, t.read.indices, strict=True)])
    value = mul(t.coefficient, cast(delta, t.coefficient.dtype))
    value = cast(guarded(t.guard, value), y.dtype)
    if not t.axes:
        return guarded(t.condition, value)
    return reduce_expr(sum_combiner(y.dtype), (value,), t.axes, t.condition)


def optimize_and_lift(t: Tensor) -> Tensor:
    """The same tensor, visiting only the nonzero points of its own formula.

    Reduction axes that conditions determine become expressions, the others get tight bounds;
    conditions that the bounds imply vanish. Other tensors are not inlined.

    Source: "TVM-level automatic differentiation" (notebook, 2018).
    """
    check_tensor(t, "OptimizeAndLiftNonzeronessConditions")
    if not isinstance(t.op, Compute) or len(t.op.bodies) != 1:
        return t
    body = nonzero_body(t.op.axes, t.op.bodies[0])
    if body is t.op.bodies[0]:
        return t
    axes, bodies = copy_bodies(t.op.axes, (body,))
    return outputs(Compute(t.op.name, axes, bodies, t.op.source))[0]


def inline_tensors(t: Tensor, tensors: Sequence[Tensor]) -> Tensor:
    """`t` with the given computes written into its formula, as far as they are no reductions.

    Source: "TVM-level automatic differentiation" (notebook, 2018), InlineNonReductions.
    """
    return inline_non_reductions(t, tensors)


def generalized_matmul(a: Tensor, b: Tensor, ndims: int) -> Tensor:
    """out[i..., j...] = sum over k... of a[i..., k...] * b[k..., j...], over `ndims` axes k.

    Args:
        a: shape (*I, *K), any arithmetic dtype.
        b: shape (*K, *J).
        ndims: len(K); 0 gives the outer product.
    Returns:
        shape (*I, *J).
    Raises:
        ShapeError: the last axes of `a` differ from the first axes of `b`.
    Source: "TVM-level automatic differentiation" (notebook, 2018), "How it works internally".
    """
    for t in (a, b):
        check_tensor(t, "generalized_matmul")
    if isinstance(ndims, bool) or not isinstance(ndims, int):
        raise DefinitionError(
            f"generalized_matmul contracts a number of axes, got {ndims!r}.",
            hint="write generalized_matmul(A, B, 1) for matrices.",
        )
    fits = 0 <= ndims <= min(a.ndim, b.ndim)
    split = a.ndim - ndims
    if not fits or not all(map(same_dim, a.shape[split:], b.shape[:ndims])):
        raise ShapeError(
            f"cannot contract the last {ndims} axes of {a.name} {format_shape(a.shape)} with "
            f"the first {ndims} of {b.name} {format_shape(b.shape)}.",
            hint="the contracted axes must have equal extents.",
        )
    shape = (*a.shape[:split], *b.shape[ndims:])
    axes = compute_axes(shape, tuple(f"ax{d}" for d in range(len(shape))))
    inner = tuple([axis(f"k{d}", 0, dim_expr(n)) for d, n in enumerate(b.shape[:ndims])])
    left, right = promote(read(a, (*axes[:split], *inner)), read(b, (*inner, *axes[split:])))
    body: Expr = mul(left, right)
    if inner:
        body = reduce_expr(sum_combiner(body.dtype), (body,), inner)
    return outputs(Compute("matmul", axes, (body,)))[0]
