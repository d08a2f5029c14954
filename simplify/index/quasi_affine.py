"""Which expressions integer sets understand, and the conditions that axes stand for."""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.ir.expr import ONE, ZERO, Axis, Call, Cast, Const, Expr, Select, Size, logical_and
from tensorad.ir.visit import children, postorder


def axis_conditions(a: Axis) -> Expr:
    """lower <= a < upper, and a in steps from lower."""
    inside = logical_and(a >= a.lower, a < a.upper)
    if isinstance(a.step, Const) and a.step.value == 1:
        return inside
    return logical_and(inside, (a - a.lower) % a.step == 0)


def starts_at_zero(a: Axis) -> bool:
    """Whether the axis counts 0, 1, 2, ... up to its upper bound."""
    return a.lower is ZERO and a.step is ONE


def free_parameters(dims: Sequence[Axis], *roots: Expr) -> list[Expr]:
    """Sizes and axes other than `dims` under the roots and in the bounds of all axes."""
    inner = dict.fromkeys(dims)
    found: dict[Expr, None] = {}
    pending: list[Expr] = [*roots, *dims]
    while pending:
        for e in postorder(pending.pop()):
            if e in found or not isinstance(e, (Axis, Size)):
                continue
            found[e] = None
            if isinstance(e, Axis):
                pending += [e.lower, e.upper, e.step]
    return [e for e in found if e not in inner]


def is_affine(root: Expr, leaves: Sequence[Expr]) -> bool:
    """Whether an integer or boolean expression over the leaves is quasi-affine."""
    allowed = dict.fromkeys(leaves)
    for e in postorder(root):
        if isinstance(e, Axis) and e not in allowed:
            return False
        if not _is_affine_node(e):
            return False
    return True


def _is_affine_node(e: Expr) -> bool:
    match e:
        case Const():
            return not e.dtype.is_float
        case Axis() | Size():
            return True
        case Call(op="mul", args=(a, b)):
            return e.dtype.is_integer and (isinstance(a, Const) or isinstance(b, Const))
        case Call(op="floordiv" | "mod", args=(_, b)):
            return isinstance(b, Const) and b.value != 0
        case Call(op="add" | "sub" | "neg" | "minimum" | "maximum" | "abs"):
            return e.dtype.is_integer
        case Call(op="lt" | "le" | "gt" | "ge" | "eq" | "ne"):
            return e.args[0].dtype.is_integer
        case Call(op="and" | "or" | "not"):
            return True
        case Select():
            return not e.dtype.is_float
        case Cast(value=v):
            return v.dtype == "bool" or (v.dtype.is_integer and widens(v, e))
    return not children(e) and not e.dtype.is_float


def widens(source: Expr, target: Expr) -> bool:
    """Whether a conversion between integer dtypes loses nothing."""
    low, high = source.dtype, target.dtype
    return low.bits < high.bits or low is high
