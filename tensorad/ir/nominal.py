"""What folds and calls in formulas refer to: combiners and scalar functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tensorad.errors import InternalError
from tensorad.ir.dtypes import DType
from tensorad.ir.leaves import param
from tensorad.ir.nodes import Call, Const, Expr, Param


@dataclass(frozen=True, eq=False)
class Combiner:
    """result[c] = combine(lhs, rhs)[c]; the fold starts from `identity`. Nominal.

    A reduction folds elements of the state's own kind; a scan's step may read others, and then
    has right operands of another number or dtype.

    `associative` is a promise (given by the user or known): without it a fold runs in
    lexicographic axis order.
    """

    name: str
    lhs: tuple[Param, ...]
    rhs: tuple[Param, ...]
    results: tuple[Expr, ...]
    identity: tuple[Const, ...]
    associative: bool = False

    @property
    def arity(self) -> int:
        return len(self.results)

    @property
    def is_sum(self) -> bool:
        """One component, x + y (or y + x), identity 0."""
        if self.arity != 1 or len(self.rhs) != 1 or self.identity[0].value != 0:
            return False
        x, y, result = self.lhs[0], self.rhs[0], self.results[0]
        return result is Call(x.dtype, "add", (x, y)) or result is Call(x.dtype, "add", (y, x))


Partials = tuple[Expr | None, ...]
"""One partial derivative per argument; None is zero everywhere."""


@dataclass(frozen=True, eq=False)
class Function:
    """name(params) = result, with d name / d params by `rule`, not by the result. Nominal.

    Attributes:
        result: over `params`; it may use other functions.
        rule: (the function's value, its params) -> partials; asked once, when first needed, so
            that functions may be each other's derivatives.
        is_weak: whether the result is a formula of numbers and integers: it yields to floats beside
            the function.
    """

    name: str
    params: tuple[Param, ...]
    result: Expr
    rule: Callable[[Param, tuple[Param, ...]], Partials]
    asked: list[tuple[Param, Partials]] = field(default_factory=list, repr=False)
    other: Callable[[tuple[DType, ...], DType], Function] | None = None
    """The same function of other dtypes."""
    is_weak: bool = False

    def of_dtypes(self, dtypes: tuple[DType, ...], like: DType) -> Function:
        """The same function of operands of these dtypes, computed in `like` if none is a float.

        Requires: it knows others.
        """
        if self.other is None:
            raise InternalError(f"{self.name} is a function of fixed dtypes")
        return self.other(dtypes, like)

    def partials(self) -> tuple[Param, Partials]:
        """(the parameter that stands for the value, the partials over it and `params`)."""
        if not self.asked:
            value = param(self.name, self.result.dtype)
            self.asked.append((value, self.rule(value, self.params)))
        return self.asked[0]
