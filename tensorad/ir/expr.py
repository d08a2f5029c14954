"""Scalar expressions: the factories check dtypes, promote operands and fold local identities."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NoReturn

import numpy as np

from tensorad.errors import DefinitionError, DTypeError
from tensorad.ir import nodes
from tensorad.ir.array_methods import is_tracing
from tensorad.ir.dtypes import (
    BOOL,
    FLOAT32,
    INT64,
    WEAK_FLOAT,
    WEAK_INT,
    DType,
    float_type,
    result_type,
    to_dtype,
    wrap,
)
from tensorad.ir.elementary.rows import FUNCTIONS as FUNCTIONS
from tensorad.ir.hooks import Hook
from tensorad.ir.leaves import FALSE as FALSE
from tensorad.ir.leaves import ONE as ONE
from tensorad.ir.leaves import TRUE as TRUE
from tensorad.ir.leaves import ZERO as ZERO
from tensorad.ir.leaves import axis as axis
from tensorad.ir.leaves import const as const
from tensorad.ir.leaves import convert_number as convert_number
from tensorad.ir.leaves import int_const as int_const
from tensorad.ir.leaves import local_size as local_size
from tensorad.ir.leaves import param as param
from tensorad.ir.leaves import size_var as size_var
from tensorad.ir.leaves import weak_const as weak_const
from tensorad.ir.nodes import ARITHMETIC as ARITHMETIC
from tensorad.ir.nodes import COMPARISONS as COMPARISONS
from tensorad.ir.nodes import LOGICAL as LOGICAL
from tensorad.ir.nodes import OPERATIONS as OPERATIONS
from tensorad.ir.nodes import ROUNDING as ROUNDING
from tensorad.ir.nodes import TESTS as TESTS
from tensorad.ir.nodes import Axis as Axis
from tensorad.ir.nodes import Call as Call
from tensorad.ir.nodes import Cast as Cast
from tensorad.ir.nodes import Const as Const
from tensorad.ir.nodes import Expr as Expr
from tensorad.ir.nodes import LocalSize as LocalSize
from tensorad.ir.nodes import Number as Number
from tensorad.ir.nodes import Param as Param
from tensorad.ir.nodes import Select as Select
from tensorad.ir.nodes import Size as Size
from tensorad.ir.nominal import Combiner
from tensorad.ir.references import Apply as Apply
from tensorad.ir.references import Read as Read
from tensorad.ir.references import Reduce as Reduce
from tensorad.ir.tensor import Tensor

typed: Final[Hook[[Expr, DType], Expr]] = Hook("tensorad.ir.weak")


def as_expr(value: object, like: DType = FLOAT32) -> Expr:
    """`value` itself if it is an expression, otherwise the constant beside a `like`."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, Tensor):  # a 0-d tensor reads as its only element
        return value.as_scalar()
    return weak_const(value, like)


def operator(op: str, a: object, b: object) -> Expr:
    """A Python operator: NotImplemented (as Python wants it) beside a non-scalar tensor."""
    for side in (a, b):
        if isinstance(side, Tensor) and (side.shape or is_tracing.call()):
            return NotImplemented  # type: ignore[no-any-return]  # Python asks the other side
    if isinstance(a, Expr):
        return call(op, a, as_expr(b, a.dtype))
    b = as_expr(b)
    return call(op, as_expr(a, b.dtype), b)


def cast(value: Expr, dtype: DType) -> Expr:
    """value.astype(dtype); a constant is converted at once, a weak formula is written anew."""
    if value.dtype is dtype:
        return value
    if value.dtype.is_weak:
        return typed.call(value, dtype)
    if isinstance(value, Const):
        return const(convert_number(value.value, dtype), dtype)
    return Cast(dtype, value)


def promote(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Both operands in their common dtype."""
    dtype = result_type(a.dtype, b.dtype)
    return cast(a, dtype), cast(b, dtype)


def call(op: str, *args: Expr) -> Expr:
    """`op(*args)` with dtypes checked, operands promoted and local identities folded."""
    if op in LOGICAL:
        return _logical(op, args)
    if op in COMPARISONS:
        return _compare(op, *_settled(*promote(*args)))
    if op in FUNCTIONS or op == "div":
        dtype = args[0].dtype
        for a in args[1:]:
            dtype = result_type(dtype, a.dtype)
        dtype = float_type(dtype)
        args = tuple([cast(a, dtype) for a in args])
        if op == "div":
            return div(*args)
        return Call(dtype, op, args)
    if op in TESTS:
        (x,) = args = _settled(*args)
        return Call(BOOL, op, args) if x.dtype.is_float else _bool(op == "isfinite")
    if op in ROUNDING:
        (x,) = args
        return Call(x.dtype, op, args) if x.dtype.is_float else x
    if op in ("neg", "abs", "sign"):
        return _unary(op, *args)
    if op in ARITHMETIC:
        return _arithmetic(op, *args)
    raise DefinitionError(f"{op!r} is not an operation of the language.")


def _settled(*operands: Expr) -> tuple[Expr, ...]:
    """Operands of a comparison: weak integers are as exact as indices."""
    own = [INT64 if e.dtype is WEAK_INT else to_dtype(e.dtype) for e in operands]
    return tuple([cast(e, dtype) for e, dtype in zip(operands, own, strict=True)])


def _bool(value: bool) -> Const:
    return TRUE if value else FALSE


def _unary(op: str, x: Expr) -> Expr:
    if x.dtype is BOOL:
        x = cast(x, INT64)
    if isinstance(x, Const):
        v = x.value
        if op == "neg":
            return const(-v, x.dtype)
        if op == "abs":
            return const(abs(v), x.dtype)
    if op == "abs" and x.dtype.kind == "uint":
        return x
    return Call(x.dtype, op, (x,))


def _arithmetic(op: str, a: Expr, b: Expr) -> Expr:
    if a.dtype is BOOL and b.dtype is BOOL and op not in ("minimum", "maximum"):
        a, b = cast(a, INT64), cast(b, INT64)
    if op == "pow":
        return _pow(a, b)
    a, b = promote(a, b)
    match op:
        case "add":
            return add(a, b)
        case "sub":
            return sub(a, b)
        case "mul":
            return mul(a, b)
        case "floordiv":
            return floordiv(a, b)
        case "mod":
            return mod(a, b)
    if a is b:
        return a
    if isinstance(a, Const) and isinstance(b, Const) and not a.dtype.is_float:
        first = a.value <= b.value if op == "minimum" else a.value >= b.value
        return a if first else b
    return Call(a.dtype, op, (a, b))


def _pow(a: Expr, b: Expr) -> Expr:
    """A whole constant exponent stays an integer constant of the base's dtype."""
    if a.dtype is BOOL:
        a = cast(a, INT64)
    dtype = result_type(a.dtype, b.dtype)
    if dtype.is_integer and isinstance(b, Const) and b.value < 0:
        if dtype.is_weak:
            return _pow(cast(a, WEAK_FLOAT), b)
        raise DTypeError(
            f"an integer cannot be raised to the negative power {b.value}.",
            hint="convert the base to a float first: x.astype('float32').",
        )
    a, b = cast(a, dtype), cast(b, dtype)
    if isinstance(b, Const) and b.value == 1:
        return a
    return Call(dtype, "pow", (a, b))


def _is(e: Expr, value: int) -> bool:
    return type(e) is Const and e.value == value and e.dtype is not BOOL


def add(a: Expr, b: Expr) -> Expr:
    """a + b of one dtype. Integers: x + 0 -> x, constants are collected on the right."""
    if a.dtype.is_integer:
        if _is(a, 0):
            return b
        if _is(b, 0):
            return a
        if isinstance(b, Const):
            if isinstance(a, Const):
                return const(int(a.value) + int(b.value), a.dtype)
            if isinstance(a, Call) and a.op in ("add", "sub") and isinstance(a.args[1], Const):
                sign = 1 if a.op == "add" else -1
                offset = wrap(sign * int(a.args[1].value) + int(b.value), a.dtype)
                return _offset(a.args[0], offset)
            if b.value < 0:
                return _offset(a, int(b.value))
    elif isinstance(a, Const) and isinstance(b, Const):
        return const(a.value + b.value, a.dtype)
    return Call(a.dtype, "add", (a, b))


def summed(parts: Iterable[Expr]) -> Expr | None:
    """The sum in the dtype of the first part, from left to right; None without parts."""
    total: Expr | None = None
    for part in parts:
        total = part if total is None else add(total, cast(part, total.dtype))
    return total


def _offset(a: Expr, offset: int) -> Expr:
    if offset == 0:
        return a
    if offset < 0 and a.dtype.kind == "int":
        return Call(a.dtype, "sub", (a, const(-offset, a.dtype)))
    return Call(a.dtype, "add", (a, const(offset, a.dtype)))


def sub(a: Expr, b: Expr) -> Expr:
    """a - b of one dtype. Integers: x - 0 -> x, x - x -> 0."""
    if a.dtype.is_integer:
        if isinstance(b, Const):
            return add(a, const(-int(b.value), a.dtype))
        if a is b:
            return const(0, a.dtype)
        if isinstance(a, Call) and a.op == "add":
            if a.args[1] is b:
                return a.args[0]
            if a.args[0] is b:
                return a.args[1]
    elif isinstance(a, Const) and isinstance(b, Const):
        return const(a.value - b.value, a.dtype)
    return Call(a.dtype, "sub", (a, b))


def mul(a: Expr, b: Expr) -> Expr:
    """a * b of one dtype: x * 1 -> x; integers also x * 0 -> 0."""
    if _is(a, 1):
        return b
    if _is(b, 1):
        return a
    if a.dtype.is_integer:
        if _is(a, 0) or _is(b, 0):
            return const(0, a.dtype)
        if isinstance(a, Const) and isinstance(b, Const):
            return const(int(a.value) * int(b.value), a.dtype)
    elif isinstance(a, Const) and isinstance(b, Const):
        return const(_float_product(a, b), a.dtype)
    return Call(a.dtype, "mul", (a, b))


def _float_product(a: Const, b: Const) -> float:
    with np.errstate(all="ignore"):
        return float(np.float64(a.value) * np.float64(b.value))


def div(a: Expr, b: Expr) -> Expr:
    """a / b of one float dtype: x / 1 -> x, constants divide."""
    if _is(b, 1):
        return a
    if isinstance(a, Const) and isinstance(b, Const):
        with np.errstate(all="ignore"):
            if a.dtype is FLOAT32:
                return const(float(np.float32(a.value) / np.float32(b.value)), FLOAT32)
            return const(float(np.float64(a.value) / np.float64(b.value)), a.dtype)
    return Call(a.dtype, "div", (a, b))


def _check_divisor(op: str, a: Expr, b: Expr) -> None:
    symbol = "//" if op == "floordiv" else "%"
    if a.dtype.is_float:
        raise DTypeError(
            f"{symbol} works on integers, not on {a.dtype}.",
            where=f"({a} {symbol} {b})",
            hint="write floor(x / y) or x - y*floor(x / y).",
        )
    if _is(b, 0):
        raise DefinitionError(
            f"integer {symbol} by the constant 0.",
            where=f"({a} {symbol} {b})",
            hint="divide by a nonzero integer.",
        )


def floordiv(a: Expr, b: Expr) -> Expr:
    """Integer a // b rounded down; x // 1 -> x."""
    _check_divisor("floordiv", a, b)
    if _is(b, 1):
        return a
    if isinstance(b, Const) and isinstance(a, Const):
        return const(int(a.value) // int(b.value), a.dtype)
    return Call(a.dtype, "floordiv", (a, b))


def mod(a: Expr, b: Expr) -> Expr:
    """Integer a % b with the sign of b; x % 1 -> 0."""
    _check_divisor("mod", a, b)
    if _is(b, 1):
        return const(0, a.dtype)
    if isinstance(b, Const) and isinstance(a, Const):
        return const(int(a.value) % int(b.value), a.dtype)
    return Call(a.dtype, "mod", (a, b))


def neg(x: Expr) -> Expr:
    """-x."""
    return _unary("neg", x)


_COMPARE: Final[dict[str, Callable[[Number, Number], bool]]] = {
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
}


def _compare(op: str, a: Expr, b: Expr) -> Expr:
    if isinstance(a, Const) and isinstance(b, Const):
        return _bool(_COMPARE[op](a.value, b.value))
    if a is b and not a.dtype.is_float:
        return _bool(op in ("le", "ge", "eq"))
    return Call(BOOL, op, (a, b))


def _logical(op: str, args: tuple[Expr, ...]) -> Expr:
    for a in args:
        if a.dtype is not BOOL:
            raise DTypeError(
                f"a condition must be boolean, got {a.dtype}.",
                where=str(a),
                hint="compare it with something, e.g. x != 0.",
            )
    if op == "not":
        return logical_not(args[0])
    return logical_and(*args) if op == "and" else logical_or(*args)


def logical_and(*conditions: Expr) -> Expr:
    """The conjunction, without duplicates and TRUE; FALSE wins."""
    result: Expr = TRUE
    for c in conditions:
        if c is FALSE:
            return FALSE
        if c is TRUE or c is result:
            continue
        result = c if result is TRUE else Call(BOOL, "and", (result, c))
    return result


def logical_or(*conditions: Expr) -> Expr:
    """The disjunction, without duplicates and FALSE; TRUE wins."""
    result: Expr = FALSE
    for c in conditions:
        if c is TRUE:
            return TRUE
        if c is FALSE or c is result:
            continue
        result = c if result is FALSE else Call(BOOL, "or", (result, c))
    return result


NEGATED: Final = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


def logical_not(x: Expr) -> Expr:
    """not x; integer comparisons are turned round (float ones keep NaN's meaning)."""
    if x.dtype is not BOOL:
        _not_boolean(x)
    if x is TRUE or x is FALSE:
        return _bool(x is FALSE)
    if isinstance(x, Call) and x.op == "not":
        return x.args[0]
    if isinstance(x, Call) and x.op in NEGATED and not x.args[0].dtype.is_float:
        return Call(BOOL, NEGATED[x.op], x.args)
    return Call(BOOL, "not", (x,))


def _not_boolean(x: Expr) -> NoReturn:
    raise DTypeError(
        f"~ works on conditions, not on {x.dtype}.",
        where=str(x),
        hint="compare it with something, e.g. x != 0.",
    )


def select(cond: Expr, then: Expr, orelse: Expr) -> Expr:
    """`then` if cond else `orelse`, in their common dtype."""
    if cond.dtype is not BOOL:
        _logical("and", (cond,))
    then, orelse = promote(then, orelse)
    if cond is TRUE or then is orelse:
        return then
    if cond is FALSE:
        return orelse
    return Select(then.dtype, cond, then, orelse)


def read(tensor: Tensor, indices: tuple[Expr, ...]) -> Read:
    """tensor[indices]; ranks and index dtypes are checked by `Tensor.__getitem__`."""
    return Read(tensor.dtype, tensor, indices)


def checked_read(tensor: Tensor, indices: tuple[Expr, ...]) -> Read:
    """tensor[indices] in a formula of users.

    Raises:
        DTypeError: the tensor is a value of a data type.
    """
    if tensor.dtype.kind == "record":
        raise tensor.dtype.no_number(tensor.name)
    return read(tensor, indices)


def reduce_expr(
    combiner: Combiner,
    sources: tuple[Expr, ...],
    axes: tuple[Axis, ...],
    condition: Expr = TRUE,
    index: int = 0,
) -> Reduce:
    """Component `index` of the fold; arities and dtypes must fit the combiner."""
    return Reduce(combiner.identity[index].dtype, combiner, sources, axes, condition, index)


nodes.operator.fill(operator)
nodes.operation.fill(call)
nodes.neg.fill(neg)
nodes.logical_not.fill(logical_not)
nodes.cast.fill(cast)
