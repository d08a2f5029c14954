"""Formulas of Python numbers take the dtype of what they meet, as the numbers themselves do.

Their nodes have a weak dtype until they meet another operand, or stand alone: then float32.
"""

from __future__ import annotations

from collections.abc import Mapping

from tensorad.errors import InternalError
from tensorad.ir import expr
from tensorad.ir.combiner import BY_NAME
from tensorad.ir.dtypes import FLOAT32, INT64, DType
from tensorad.ir.expr import (
    Apply,
    Call,
    Cast,
    Const,
    Expr,
    Reduce,
    Select,
    call,
    cast,
    reduce_expr,
    select,
    weak_const,
)
from tensorad.ir.functions import apply


def settled(e: Expr) -> Expr:
    """A formula that stands alone: float32 if it is weak."""
    return typed(e, FLOAT32) if e.dtype.is_weak else e


def typed(root: Expr, dtype: DType) -> Expr:
    """A weak formula computed in `dtype`; as float32, then converted, if the kind does not fit."""
    if (root.dtype.is_float and not dtype.is_float) or dtype.kind == "bool":
        return cast(settled(root), dtype)
    done: dict[Expr, Expr] = {}
    stack = [root]
    while stack:
        e = stack[-1]
        missing = [c for c in e.below if c.dtype is e.dtype and c not in done]
        stack.extend(missing)
        if not missing:
            stack.pop()
            if e not in done:
                done[e] = _image(e, dtype, done)
    return done[root]


def _image(e: Expr, dtype: DType, done: Mapping[Expr, Expr]) -> Expr:
    match e:
        case Const():
            return weak_const(e.value, dtype)
        case Cast():
            return cast(_whole(e.value), dtype)
        case Call(op="floordiv" | "mod") if dtype.is_float:
            return Cast(dtype, e) if dtype.is_weak else cast(_whole(e), dtype)
        case Call():
            return call(e.op, *[done[a] for a in e.args])
        case Select():
            return select(e.cond, done[e.then], done[e.orelse])
        case Apply():
            args = tuple([done.get(a, a) for a in e.args])
            function = e.function.of_dtypes(tuple([a.dtype for a in args]), dtype)
            return cast(apply(function, args), dtype)
        case Reduce():
            combiner = BY_NAME[e.combiner.name](dtype)
            sources = tuple([done[s] for s in e.sources])
            return reduce_expr(combiner, sources, e.axes, e.condition)
    raise InternalError(f"{type(e).__name__} {e} is weak")


def _whole(e: Expr) -> Expr:
    """An integer formula as one of indices if it is weak."""
    return typed(e, INT64) if e.dtype.is_weak else e


expr.typed.fill(typed)
