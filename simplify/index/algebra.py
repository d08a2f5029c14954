"""Index algebra: sums collected, divisions and comparisons decided by the axes' bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tensorad.errors import DefinitionError
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import (
    FALSE,
    NEGATED,
    TRUE,
    Axis,
    Call,
    Const,
    Expr,
    Size,
    floordiv,
    int_const,
    mod,
)
from tensorad.ir.order import INDEX
from tensorad.ir.visit import postorder, rewrite
from tensorad.simplify.index.intervals import Interval, interval
from tensorad.simplify.index.linear import Linear

_MAX_TERMS = 64
"""A sum with more terms is left as written."""


def simplify(root: Expr) -> Expr:
    """The same value with its index arithmetic in a short form.

    Integer sums of axes and sizes are collected, `//` and `%` lose what divides exactly or
    is bounded by the axes, comparisons and min/max that the bounds decide are decided.
    Arithmetic on data is left as written: floats are not associative, integers wrap.

    Raises:
        DefinitionError: not an expression.
    """
    if not isinstance(root, Expr):
        raise DefinitionError(
            f"only an expression can be simplified, got {type(root).__name__}.",
            hint="pass a formula such as X[i]*(i//2), or a tensor's body.",
        )
    return _Simplifier().run(root)


def simplify_indices(axes: Sequence[Axis], body: Expr) -> Expr:
    """A body with its index arithmetic in a short form."""
    return simplify(body)


class _Simplifier:
    """One traversal; it knows every visited index expression as a sum."""

    def __init__(self) -> None:
        self.forms: dict[Expr, Linear] = {}
        self.data: dict[Expr, None] = {}
        """Nodes that are no index expressions."""

    def run(self, root: Expr) -> Expr:
        return rewrite(root, self._shorter, kinds=INDEX)

    def _form(self, e: Expr) -> Linear:
        """An index expression as a sum; what is no sum is a leaf."""
        if e not in self.forms:
            self.forms[e] = Linear({e: 1}, 0)
        return self.forms[e]

    def _shorter(self, e: Expr) -> Expr | None:
        match e:
            case Const() if e.dtype is INT64:
                self.forms[e] = Linear({}, int(e.value))
            case Axis() | Size():
                self.forms[e] = Linear({e: 1}, 0)
            case Call() if all(self._is_index(a) for a in e.args):
                return self._call(e)
            case _:
                self.data[e] = None
        return None

    def _is_index(self, e: Expr) -> bool:
        """Whether the node has a form; factories may have folded it out of known ones."""
        if e not in self.forms and e not in self.data:
            for part in postorder(e):
                if part not in self.forms and part not in self.data:
                    self._shorter(part)
        return e in self.forms

    def _call(self, e: Call) -> Expr | None:
        if e.dtype is not INT64:
            self.data[e] = None
            return self._decide(e) if e.op in _COMPARISONS else None
        form = self._value(e)
        if form is None:
            return None
        if len(form.terms) > _MAX_TERMS:
            self.forms[e] = Linear({e: 1}, 0)
            return None
        short = form.to_expr()
        self.forms[e] = self.forms[short] = form
        return None if short is e else short

    def _sum(self, e: Call) -> Linear | None:
        forms = [self._form(a) for a in e.args]
        match e:
            case Call(op="add"):
                return forms[0].plus(forms[1])
            case Call(op="sub"):
                return forms[0].plus(forms[1], -1)
            case Call(op="neg"):
                return forms[0].scaled(-1)
            case Call(op="mul", args=(_, Const() as c)):
                return forms[0].scaled(int(c.value))
            case Call(op="mul", args=(Const() as c, _)):
                return forms[1].scaled(int(c.value))
        return None

    def _value(self, e: Call) -> Linear | None:
        """An operation as a sum; None if it is none of ours."""
        total = self._sum(e)
        if total is not None:
            return total
        if e.op in ("floordiv", "mod") and isinstance(e.args[1], Const):
            return _divide(e.op, self._form(e.args[0]), int(e.args[1].value))
        if e.op in ("minimum", "maximum"):
            return self._form(self._extremum(e))
        return self._form(e)

    def _difference(self, a: Expr, b: Expr) -> tuple[float, float]:
        found = interval(self._form(a).plus(self._form(b), -1).to_expr())
        low = float("-inf") if found.lo is None else found.lo
        return low, float("inf") if found.hi is None else found.hi

    def _extremum(self, e: Call) -> Expr:
        a, b = e.args
        low, high = self._difference(a, b)
        larger, smaller = (a, b) if low >= 0 else (b, a)
        if low < 0 < high:
            return e
        return larger if e.op == "maximum" else smaller

    def _decide(self, e: Call) -> Expr | None:
        low, high = self._difference(*e.args)
        if _COMPARISONS[e.op](low, high):
            return TRUE
        return FALSE if _COMPARISONS[NEGATED[e.op]](low, high) else None


_COMPARISONS: Final[dict[str, Callable[[float, float], bool]]] = {
    "lt": lambda low, high: high < 0,
    "le": lambda low, high: high <= 0,
    "gt": lambda low, high: low > 0,
    "ge": lambda low, high: low >= 0,
    "eq": lambda low, high: low == high == 0,
    "ne": lambda low, high: low > 0 or high < 0,
}
"""Whether a op b holds for every difference a - b in [low, high]."""


def _divide(op: str, value: Linear, divisor: int) -> Linear:
    """(c*q + r) // c -> q + r // c and (c*q + r) % c -> r % c; then r // c is 0 and r % c is r
    if the axes keep r in [0, c)."""
    build = floordiv if op == "floordiv" else mod
    if divisor == 0:
        return Linear({build(value.to_expr(), int_const(0)): 1}, 0)
    whole = Linear(
        {x: c // divisor for x, c in value.terms.items() if c % divisor == 0},
        value.constant // divisor,
    )
    rest = Linear({x: c for x, c in value.terms.items() if c % divisor}, value.constant % divisor)
    if interval(rest.to_expr()).within(Interval(0, divisor - 1)):
        return whole if op == "floordiv" else rest
    if not rest.terms:  # a constant outside [0, c): the divisor is negative
        number = rest.constant // divisor if op == "floordiv" else rest.constant % divisor
        constant = Linear({}, number)
    else:
        constant = Linear({build(rest.to_expr(), int_const(divisor)): 1}, 0)
    return whole.plus(constant) if op == "floordiv" else constant
