"""How tensorad's index expressions become isl's functions and sets: names, budget, conversion."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import islpy as isl

from tensorad import config
from tensorad.errors import TensoradError
from tensorad.ir.expr import Axis, Call, Cast, Const, Expr, Select
from tensorad.ir.visit import postorder
from tensorad.simplify.index.quasi_affine import widens

_thread = threading.local()


_PIECEWISE: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "neg": operator.neg,
    "minimum": lambda a, b: a.min(b),
    "maximum": lambda a, b: a.max(b),
    "abs": lambda a: a.max(-a),
}
"""Of isl's piecewise quasi-affine expressions."""


class NotAffine(TensoradError):
    """The expression is outside quasi-affine integer arithmetic."""


class BudgetExceeded(TensoradError):
    """isl spent more operations than its budget."""


def _context() -> Any:
    """One isl context per thread: isl objects are never shared between threads."""
    if not hasattr(_thread, "context"):
        _thread.context = isl.Context()
    return _thread.context


@contextmanager
def budget(operations: int | None = None) -> Iterator[None]:
    """Bound the isl work of a block; one around it begins to count again after it.

    Raises:
        BudgetExceeded: the block needed more than `operations` (default: the setting).
    """
    ctx = _context()
    around = ctx.get_max_operations()
    ctx.reset_operations()
    limit = operations or config.current().isl_operations
    ctx.set_max_operations(limit)
    try:
        yield
    except (isl.Error, TypeError, AttributeError):  # islpy may use what isl did not give it
        if _is_spent(ctx):
            raise BudgetExceeded(f"isl needs more than {limit:,} operations") from None
        raise
    finally:
        ctx.set_max_operations(around)
        ctx.reset_operations()


def _is_spent(ctx: Any) -> bool:
    """Whether isl refuses any more work."""
    try:
        isl.Val("1", context=ctx)
    except isl.Error as error:
        return "maximal number of operations" in str(error)
    return False


class Space:
    """Names for leaves: `params` (sizes and outer axes) and `dims` (inner axes)."""

    def __init__(self, params: Sequence[Expr], dims: Sequence[Axis]) -> None:
        self.params = tuple(params)
        self.dims = tuple(dims)
        names = [f"p{n}" for n in range(len(params))], [f"v{n}" for n in range(len(dims))]
        made = isl.make_zero_and_vars(names[1], names[0], _context())
        self.zero: Any = made[0]
        self._values: dict[Expr, Any] = {}
        self._sets: dict[Expr, Any] = {}
        for leaf, name in zip((*params, *dims), (*names[0], *names[1]), strict=True):
            self._values[leaf] = made[name]
        self.universe: Any = self.zero.eq_set(self.zero)

    def _constant(self, value: int) -> Any:
        # no sum of a PwAff and a number: islpy's conversion hides that the budget is spent
        number = isl.Val(str(value), context=_context())
        return isl.PwAff.val_on_domain(self.universe, number)

    def affine(self, root: Expr) -> Any:
        """The PwAff of an integer expression."""
        self._convert(root)
        return self._values[root]

    def condition(self, root: Expr) -> Any:
        """The Set where a boolean expression holds."""
        self._convert(root)
        return self._sets[root]

    def _convert(self, root: Expr) -> None:
        if root in self._values or root in self._sets:
            return
        for e in postorder(root):
            if e in self._values or e in self._sets:
                continue
            if e.dtype == "bool":
                self._sets[e] = self._to_set(e)
            elif e.dtype.is_integer:
                self._values[e] = self._to_aff(e)
            else:
                raise NotAffine(f"{e} is not affine")

    def _to_aff(self, e: Expr) -> Any:
        values = self._values
        match e:
            case Const():
                return self._constant(int(e.value))
            case Call(op=op, args=args) if op in _PIECEWISE:
                return _PIECEWISE[op](*[values[a] for a in args])
            case Call(op="mul", args=(a, b)):
                return self._product(e, a, b)
            case Call(op="floordiv" | "mod", args=(a, Const() as c)):
                return self._division(e, values[a], int(c.value))
            case Select(cond=c, then=a, orelse=b):
                chosen = self._sets[c]
                other = values[b].intersect_domain(chosen.complement())
                return values[a].intersect_domain(chosen).union_add(other)
            case Cast(value=v) if v.dtype == "bool":
                holds = self._sets[v]
                one = self._constant(1).intersect_domain(holds)
                return one.union_add(self.zero.intersect_domain(holds.complement()))
            case Cast(value=v) if v.dtype.is_integer and widens(v, e):
                return values[v]
        raise NotAffine(f"{e} is not affine")

    def _product(self, e: Expr, a: Expr, b: Expr) -> Any:
        for factor, other in ((a, b), (b, a)):
            if isinstance(factor, Const):
                return self._values[other].scale_val(
                    isl.Val(str(int(factor.value)), context=_context())
                )
        raise NotAffine(f"{e} is not affine")

    def _division(self, e: Call, value: Any, divisor: int) -> Any:
        """a // -c is (-a) // c; a % c is a - c*(a // c), for either sign of c."""
        if divisor == 0:
            raise NotAffine(f"{e} is not affine")
        scale = isl.Val(str(abs(divisor)), context=_context())
        quotient = (value if divisor > 0 else value.neg()).scale_down_val(scale).floor()
        if e.op == "floordiv":
            return quotient
        return value - quotient.scale_val(isl.Val(str(divisor), context=_context()))

    def _to_set(self, e: Expr) -> Any:
        match e:
            case Const():
                return self.universe if e.value else self.universe.complement()
            case Call(op="and", args=(a, b)):
                return self._sets[a].intersect(self._sets[b])
            case Call(op="or", args=(a, b)):
                return self._sets[a].union(self._sets[b])
            case Call(op="not", args=(a,)):
                return self._sets[a].complement()
            case Call(op="lt" | "le" | "gt" | "ge" | "eq" | "ne", args=(a, b)):
                if a.dtype.is_integer:
                    compare = getattr(self._values[a], f"{e.op}_set")
                    return compare(self._values[b])
            case Select(cond=c, then=a, orelse=b):
                chosen = self._sets[c]
                other = self._sets[b].subtract(chosen)
                return self._sets[a].intersect(chosen).union(other)
        raise NotAffine(f"{e} is not affine")
