"""Products of an adjoint and a partial derivative: what a guard has switched off stays 0.

`select(s[i] > 0, s[i], 0)` gives s an adjoint that is 0 where s is not positive, and the partial
derivatives of s may be infinite there. The guard then is the product's, as in forward mode; it
is not multiplied by 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tensorad.autodiff.adjoints.adjoint import Adjoint
from tensorad.autodiff.local.linear import times
from tensorad.ir.analysis.points import depends_on_data
from tensorad.ir.expr import (
    FALSE,
    TRUE,
    Apply,
    Call,
    Cast,
    Const,
    Expr,
    Read,
    Select,
    add,
    cast,
    div,
    logical_and,
    logical_not,
    logical_or,
    mul,
    neg,
    select,
    sub,
)
from tensorad.ir.order import REDUCE, occurs, outside_reductions
from tensorad.ir.tensor import Scan
from tensorad.ir.visit import postorder, substitute
from tensorad.simplify.zeros.lift import guarded, is_zero

_FINITE: Final = frozenset(
    "abs add atan ceil cos cosh erf erfc exp exp2 expm1 floor maximum minimum mul neg round "
    "sigmoid sign sin sinh sub tanh trunc".split()
)
"""Operations of finite floats that are finite, but for overflow."""


def product(adjoint: Adjoint, indices: Sequence[Expr], coefficient: Expr) -> Expr:
    """The adjoint at (batch indices, tensor indices) times a partial derivative."""
    if not may_be_infinite(coefficient):
        return times(cast(adjoint.at(indices), coefficient.dtype), coefficient)
    condition, value = _at(adjoint, indices)
    return guarded(condition, times(cast(value, coefficient.dtype), coefficient))


def switched_on(adjoint: Adjoint, indices: Sequence[Expr]) -> Expr:
    """Where the data let an adjoint at (batch indices, tensor indices) be other than 0."""
    return _at(adjoint, indices)[0]


def _at(adjoint: Adjoint, indices: Sequence[Expr]) -> tuple[Expr, Expr]:
    axes, body = adjoint.formula()
    condition, value = split(body)
    here: Mapping[Expr, Expr] = dict(zip(axes, indices, strict=True))
    if condition is TRUE or adjoint.tensor is not None:
        return substitute(condition, here), adjoint.at(indices)
    return substitute(condition, here), Adjoint(axes, value).at(indices)


def may_be_infinite(coefficient: Expr) -> bool:
    """Whether a partial derivative may be infinite or NaN where all that it reads is finite.

    A factor that a fold's steps have found is one of their partial derivatives.
    """
    roots = [coefficient]
    for e in postorder(coefficient):
        if isinstance(e, Read) and isinstance(e.tensor.op, Scan):
            roots += e.tensor.op.combiner.results
    return any(_has_pole(e) for e in postorder(*roots) if e.dtype.is_float)


def _has_pole(e: Expr) -> bool:
    match e:
        case Call(op="div", args=(_, Const(value=v))):
            return v == 0
        case Call(op=op):
            return op not in _FINITE
    return isinstance(e, Apply)


def split(root: Expr) -> tuple[Expr, Expr]:
    """root -> (condition, value) with root = value where the condition holds, otherwise 0.

    The condition is that of selects on data around the whole value, or around all its terms;
    those in the second factor of a product belong to a partial derivative and say nothing.
    """
    found: dict[Expr, tuple[Expr, Expr]] = {}
    for e in outside_reductions((root,), _operands):
        found[e] = _split_node(e, found)
    condition, value = found[root]
    plain = depends_on_data(condition) and not occurs(REDUCE, condition)
    return (condition, value) if plain else (TRUE, root)


def _operands(e: Expr) -> tuple[Expr, ...]:
    match e:
        case Call(op="mul" | "div" | "neg", args=(a, *_)):
            return (a,)
        case Call(op="add" | "sub"):
            return e.args
        case Select(then=a, orelse=b):
            return (a,) if is_zero(b) else (b,) if is_zero(a) else ()
        case Cast(value=v) if v.dtype.is_float:
            return (v,)
    return ()


def _split_node(e: Expr, found: Mapping[Expr, tuple[Expr, Expr]]) -> tuple[Expr, Expr]:
    parts = [found[c] for c in _operands(e)]
    if not parts or (all(p is TRUE for p, _ in parts) and not isinstance(e, Select)):
        return TRUE, e
    p, x = parts[0]
    match e:
        case Select(cond=c, orelse=b):
            return _both(c if is_zero(b) else logical_not(c), p), x
        case Call(op="mul", args=(_, b)):
            return p, mul(x, b)
        case Call(op="div", args=(_, b)):
            return p, div(x, b)
        case Call(op="neg"):
            return p, neg(x)
        case Cast():
            return p, cast(x, e.dtype)
    q, y = parts[1]
    if p is q and isinstance(e, Call):
        return p, add(x, y) if e.op == "add" else sub(x, y)
    return logical_or(p, q), e


def _both(first: Expr, second: Expr) -> Expr:
    """The second is evaluated where the first holds."""
    if depends_on_data(second) and second is not TRUE:
        return select(first, second, FALSE)
    return logical_and(first, second)
