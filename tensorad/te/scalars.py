"""Scalar functions of formulas; given whole tensors they work elementwise, with broadcasting."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol, overload

from tensorad.errors import DefinitionError, DTypeError
from tensorad.ir.arrays.constants import with_constants
from tensorad.ir.arrays.elementwise import elementwise, is_array_program, over_broadcast
from tensorad.ir.arrays.ufuncs import COMPOSED, own_name
from tensorad.ir.dtypes import BOOL, WEAK_INT
from tensorad.ir.elementary.cost import OperationCost
from tensorad.ir.elementary.table import Elementary, Partials, register
from tensorad.ir.expr import FUNCTIONS, OPERATIONS, Expr, Number, call
from tensorad.ir.expr import select as select_expr
from tensorad.ir.tensor import Compute, Tensor, outputs
from tensorad.ir.visit import free_leaves
from tensorad.ir.weak import settled
from tensorad.te.checks import element, excerpt, operand
from tensorad.te.functions import partials_given, takes

Scalar = Expr | Number


class Unary(Protocol):
    """A function of one element, or of every element of a tensor."""

    @overload
    def __call__(self, x: Tensor) -> Tensor: ...
    @overload
    def __call__(self, x: Scalar) -> Expr: ...


class Binary(Protocol):
    """A function of two elements, or of tensors that broadcast."""

    @overload
    def __call__(self, a: Scalar, b: Scalar) -> Expr: ...
    @overload
    def __call__(self, a: Tensor, b: Tensor | Number) -> Tensor: ...
    @overload
    def __call__(self, a: Number, b: Tensor) -> Tensor: ...


def _apply(op: str, *operands: Any) -> Any:
    if any(isinstance(o, Tensor) for o in operands):
        return elementwise(op, *operands)
    like = next((o.dtype for o in operands if isinstance(o, Expr)), WEAK_INT)
    return call(op, *[operand(f"an operand of {op}", o, like) for o in operands])


def _made(op: str, meaning: str, arity: int) -> Any:
    def unary(x: Any) -> Any:
        return _apply(op, x)

    def binary(a: Any, b: Any) -> Any:
        return _apply(op, a, b)

    function = unary if arity == 1 else binary
    function.__name__ = function.__qualname__ = op
    function.__doc__ = meaning
    return function


def _unary(op: str, meaning: str = "") -> Unary:
    made: Unary = _made(op, meaning or FUNCTIONS[op].meaning, 1)
    return made


def _binary(op: str, meaning: str = "") -> Binary:
    made: Binary = _made(op, meaning or FUNCTIONS[op].meaning, 2)
    return made


def elementary_function(row: Elementary) -> Any:
    """A scalar function of one's own with machine code of its own, called like `exp`.

    A function that formulas can write needs no machine code: see `scalar_function`.

    Args:
        row: all that is known of it; it stands in the table from now on. Its partials may be what
            those of `scalar_function` may be.
    Raises:
        DefinitionError: it is no record of a function of one or two floats, or its name is no
            identifier or taken, by a function of NumPy that formulas have included.
    Example:
        softsign = te.elementary_function(te.Elementary(
            name="softsign",
            meaning="x / (1 + |x|).",
            value=lambda x: x / (1 + np.abs(x)),
            partials=lambda y, x: (1 - abs(y)) ** 2,
            code=lambda w, x: w.div(x, w.add(w.const(1.0), w.intrinsic("fabs", x))),
            sampled=(-10, 10)))
    """
    if not isinstance(row, Elementary):
        raise DefinitionError(
            f"elementary_function takes an Elementary, got {type(row).__name__}.",
            hint="te.Elementary(name=..., meaning=..., value=..., partials=..., code=..., ...).",
        )
    what = f"the function {row.name}"
    if row.arity not in (1, 2):
        raise DefinitionError(f"{what} must take 1 or 2 arguments, got arity={row.arity!r}.")
    if not isinstance(row.cost, OperationCost):
        raise DefinitionError(f"the cost of {what} must be an OperationCost, got {row.cost!r}.")
    own = ("a", "b")[: row.arity]
    for field, names in (("value", own), ("partials", ("y", *own)), ("code", ("w", *own))):
        if not takes(getattr(row, field), len(names)):
            raise DefinitionError(
                f"the {field} of {what} must be a function ({', '.join(names)}) -> ...",
            )
    if row.ufunc and own_name(row.ufunc) in (*FUNCTIONS, *OPERATIONS, *COMPOSED):
        raise DefinitionError(
            f"np.{row.ufunc} is a function of formulas already.",
            hint=f"leave out ufunc={row.ufunc!r}, or give another one.",
        )
    given = row.partials

    def partials(y: Expr, *args: Expr) -> Partials:
        return partials_given(row.name, given, y, args)

    register(replace(row, partials=partials))
    return _made(row.name, row.meaning, row.arity)


exp = _unary("exp")
log = _unary("log")
log1p = _unary("log1p")
expm1 = _unary("expm1")
sqrt = _unary("sqrt")
rsqrt = _unary("rsqrt")
tanh = _unary("tanh")
sigmoid = _unary("sigmoid")
erf = _unary("erf")
sin = _unary("sin")
cos = _unary("cos")
tan = _unary("tan")
asin = _unary("asin")
acos = _unary("acos")
atan = _unary("atan")
sinh = _unary("sinh")
cosh = _unary("cosh")
exp2 = _unary("exp2")
log2 = _unary("log2")
log10 = _unary("log10")
cbrt = _unary("cbrt")
asinh = _unary("asinh")
acosh = _unary("acosh")
atanh = _unary("atanh")
erfc = _unary("erfc")
erfinv = _unary("erfinv")
lgamma = _unary("lgamma")
digamma = _unary("digamma")
trigamma = _unary("trigamma")
abs = _unary("abs", "|x|; derivative 0 at 0.")
sign = _unary("sign", "-1, 0 or 1.")
floor = _unary("floor", "The largest whole number <= x, as x's dtype.")
ceil = _unary("ceil", "The smallest whole number >= x, as x's dtype.")
round = _unary("round", "The nearest whole number, halves to even, as x's dtype.")
trunc = _unary("trunc", "x without its fraction, as x's dtype.")
isnan = _unary("isnan", "Whether x is NaN.")
isfinite = _unary("isfinite", "Whether x is neither NaN nor infinite.")

atan2 = _binary("atan2")
fmod = _binary("fmod")
pow = _binary("pow", "a to the power b; exact for a constant whole b.")
minimum = _binary("minimum", "The smaller; the first of equals; NaN wins.")
maximum = _binary("maximum", "The larger; the first of equals; NaN wins.")


def select(cond: Any, a: Any, b: Any) -> Any:
    """`a` where the condition holds, otherwise `b`; the other one is not evaluated.

    Args:
        cond: a condition, e.g. (N[i] >= 0) & (X[N[i]] > 1): the left one guards the right one's
            reads. A boolean tensor selects elementwise, with broadcasting.
        a, b: expressions or numbers, converted to their common dtype; tensors and arrays with a
            tensor.
    """
    tensors = [o for o in (cond, a, b) if isinstance(o, Tensor)]
    if any(t.shape for t in tensors) or (tensors and is_array_program((cond, a, b))):
        return _select_tensors(*with_constants((cond, a, b)))
    like = next((o.dtype for o in (a, b) if isinstance(o, (Expr, Tensor))), WEAK_INT)
    chosen = select_expr(
        _condition(cond),
        operand("the first branch of select", a, like),
        operand("the second branch of select", b, like),
    )
    if isinstance(cond, Tensor) and not any(isinstance(o, Expr) for o in (a, b)):
        return outputs(Compute("select", (), (settled(chosen),)))[0]
    return chosen


def _condition(cond: object) -> Expr:
    e = element("the condition of select", cond, BOOL)
    if e.dtype is not BOOL:
        raise DTypeError(
            f"the condition of select must be boolean, got {e.dtype}.",
            where=excerpt(e),
            hint="compare it with something, e.g. x != 0.",
        )
    return e


def _select_tensors(*operands: object) -> Tensor:
    """An elementwise select: every operand is a tensor, a number or an expression of sizes."""
    for o in operands:
        if isinstance(o, Expr) and free_leaves(o):
            raise DefinitionError(
                "select: a whole tensor cannot be combined with an expression of one index.",
                where=excerpt(o),
                hint="read the tensor at indices, X[i, j], inside compute.",
            )
    return over_broadcast("select", operands, lambda at: settled(select(*at)))
