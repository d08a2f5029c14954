"""Numbers in the text of programs take the dtype of what they stand beside.

Until that is known their nodes have a weak dtype, as have operations on such numbers alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorad.errors import InternalError
from tensorad.ir.dtypes import WEAK_FLOAT, DType, wrap
from tensorad.ir.expr import Apply, Call, Const, Expr, Reduce, Select, const
from tensorad.ir.functions import stop_function
from tensorad.ir.nodes import Number
from tensorad.ir.text.formulas import built_in


class DoesNotFit(Exception):
    """A number that its dtype does not have."""

    def __init__(self, value: Number, dtype: DType) -> None:
        super().__init__(f"{value} is no {dtype}.")


def common_dtype(operands: Sequence[Expr]) -> DType:
    """That of the first operand which has one; weak if none has."""
    for e in operands:
        if not e.dtype.is_weak:
            return e.dtype
    floats = [e.dtype for e in operands if e.dtype.is_float]
    return floats[0] if floats else operands[0].dtype


def given_dtype(root: Expr, dtype: DType) -> Expr:
    """A formula of numbers in a dtype; a formula that has one is left as it is.

    Raises:
        DoesNotFit: a number of it is none of this dtype.
    """
    if not root.dtype.is_weak:
        return root
    done: dict[Expr, Expr] = {}
    stack = [root]
    while stack:
        e = stack[-1]
        missing = [c for c in e.below if c.dtype.is_weak and c not in done]
        stack.extend(missing)
        if not missing:
            stack.pop()
            done[e] = _given(e, dtype, done)
    return done[root]


def _given(e: Expr, dtype: DType, done: dict[Expr, Expr]) -> Expr:
    def new(c: Expr) -> Expr:
        return done.get(c, c)

    match e:
        case Const():
            return _number(e.value, e.dtype, dtype)
        case Call():
            return Call(dtype, e.op, tuple([new(a) for a in e.args]))
        case Select():
            return Select(dtype, e.cond, new(e.then), new(e.orelse))
        case Apply():
            return Apply(dtype, stop_function(dtype), tuple([new(a) for a in e.args]))
        case Reduce():
            combiner = built_in(e.combiner.name, dtype)
            if combiner is None:
                raise InternalError(f"{e.combiner.name} folds numbers of any dtype")
            sources = tuple([new(s) for s in e.sources])
            return Reduce(dtype, combiner, sources, e.axes, e.condition, e.index)
    raise InternalError(f"{type(e).__name__} has the dtype of what it stands beside")


def _number(value: Number, written: DType, dtype: DType) -> Const:
    if dtype.kind == "bool" or (dtype.is_integer and written is WEAK_FLOAT):
        raise DoesNotFit(value, dtype)
    if dtype.is_integer and wrap(int(value), dtype) != value:
        raise DoesNotFit(value, dtype)
    return const(value, dtype)
