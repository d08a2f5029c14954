"""Scalar expressions: the node classes. Each stores exactly what it is given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Concatenate, Final, NoReturn

import numpy as np

from tensorad.errors import DefinitionError, NoValueError
from tensorad.ir.dtypes import DType, to_dtype
from tensorad.ir.hooks import Hook
from tensorad.ir.node import Node, both_sides

Number = bool | int | float

ARITHMETIC: Final = ("add", "sub", "mul", "div", "floordiv", "mod", "minimum", "maximum", "pow")
COMPARISONS: Final = ("lt", "le", "gt", "ge", "eq", "ne")
LOGICAL: Final = ("and", "or", "not")
ROUNDING: Final = ("floor", "ceil", "round", "trunc")
TESTS: Final = ("isnan", "isfinite")
OPERATIONS: Final = (
    *ARITHMETIC, "neg", "abs", "sign", *COMPARISONS, *LOGICAL, *ROUNDING, *TESTS,
)  # fmt: skip
"""Every `Call.op` but the scalar functions, which are in the table of `tensorad.ir.elementary`."""


AXIS: Final = 1
SIZE: Final = 2
PARAM: Final = 4
READ: Final = 8
DATA: Final = 16
"""A read of a tensor that is not a constant."""
REDUCE: Final = 32
SELECT: Final = 64
INDICATOR: Final = 128
"""A condition as a number, 0 or 1."""
APPLY: Final = 256
FLOAT: Final = 512
"""A value of a float dtype."""
INDEX: Final = 1024
"""An operation on integers or conditions alone."""
CONDITION: Final = 2048
"""One of these that gives a condition."""


operator: Final[Hook[[str, object, object], Expr]] = Hook("tensorad.ir.expr")


class Expr(Node):
    """A scalar value; arithmetic operators build new expressions.

    Attributes (they follow from the fields):
        below: the direct operands; a reduction's include the bounds of its axes.
        kinds: which kinds of nodes (`AXIS`, `READ`, ...: one bit each) occur here or below.
    """

    __slots__ = ("dtype", "kinds")
    dtype: DType

    if TYPE_CHECKING:

        @property
        def below(self) -> tuple[Expr, ...]: ...
        @property
        def kinds(self) -> int: ...

    else:
        below = ()

    own_kinds = 0
    """Those of the node itself, its dtype apart."""

    def _complete(self) -> None:
        kinds = self.own_kinds
        if self.dtype.kind == "float":
            kinds |= FLOAT
        for e in self.below:
            kinds |= e.kinds
        _set_kinds(self, kinds)

    __hash__ = object.__hash__

    def astype(self, dtype: object) -> Expr:
        """This value converted to `dtype` (float to int saturates, NaN becomes 0)."""
        return cast.call(self, to_dtype(dtype))

    __add__, __radd__ = both_sides(operator, "add")
    __sub__, __rsub__ = both_sides(operator, "sub")
    __mul__, __rmul__ = both_sides(operator, "mul")
    __truediv__, __rtruediv__ = both_sides(operator, "div")
    __floordiv__, __rfloordiv__ = both_sides(operator, "floordiv")
    __mod__, __rmod__ = both_sides(operator, "mod")
    __pow__, __rpow__ = both_sides(operator, "pow")
    __and__, __rand__ = both_sides(operator, "and")
    __or__, __ror__ = both_sides(operator, "or")
    __lt__ = both_sides(operator, "lt")[0]
    __le__ = both_sides(operator, "le")[0]
    __gt__ = both_sides(operator, "gt")[0]
    __ge__ = both_sides(operator, "ge")[0]

    def __neg__(self) -> Expr:
        return neg.call(self)

    def __abs__(self) -> Expr:
        return operation.call("abs", self)

    def __invert__(self) -> Expr:
        return logical_not.call(self)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]  # builds a comparison
        return operator.call("eq", self, other)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]  # builds a comparison
        return operator.call("ne", self, other)

    def __bool__(self) -> NoReturn:
        raise NoValueError(
            "an expression has no truth value while the formula is being written.",
            where=str(self),
            hint="use select(cond, a, b) instead of if, and &, |, ~ instead of and, or, not; "
            "write a chained comparison as (a < b) & (b < c); a program branches with ta.cond.",
        )

    def _no_number(self, name: str) -> NoReturn:
        raise NoValueError(
            f"{name} needs a number, but this is an expression of the formula.",
            where=str(self),
            hint="use the functions of tensorad (ta.exp, ta.round, .astype) inside a formula.",
        )

    def __index__(self) -> int:
        raise DefinitionError(
            "a Python index or range() needs a number, but this is an expression of the formula.",
            where=str(self),
            hint="sum over a reduce_axis instead of a range; a list that is read there is a "
            f"tensor, A = ta.const(list), A[{self}].",
        )

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        raise DefinitionError(
            "NumPy works on arrays, but this is an expression of the formula.",
            where=str(self),
            hint=f"an array that is read there is a tensor, A = ta.const(array), A[{self}].",
        )

    def __len__(self) -> int:
        self._no_number("len()")

    def __iter__(self) -> Iterator[Expr]:
        self._no_number("iteration")

    def __str__(self) -> str:
        return format_expr.call(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self} : {self.dtype}>"


operation: Final[Hook[Concatenate[str, ...], Expr]] = Hook("tensorad.ir.expr")
neg: Final[Hook[[Expr], Expr]] = Hook("tensorad.ir.expr")
logical_not: Final[Hook[[Expr], Expr]] = Hook("tensorad.ir.expr")
cast: Final[Hook[[Expr, DType], Expr]] = Hook("tensorad.ir.expr")
format_expr: Final[Hook[[Expr], str]] = Hook("tensorad.ir.text.printer")

_set_kinds: Final = Expr.__dict__["kinds"].__set__


class Const(Expr):
    """A number; 0.0 and -0.0, 1 and True are different constants."""

    value: Number


class Axis(Expr):
    """A loop index over lower, lower+step, ... below upper. Nominal: never interned.

    Bounds and step may be expressions of sizes and of axes bound outside this one.

    Attributes:
        extent: how many values the axis takes; None where its bounds are not constant.
    """

    __slots__ = ("extent", "lower", "name", "serial", "step", "upper")
    own_kinds = AXIS
    name: str
    lower: Expr
    upper: Expr
    step: Expr
    serial: int
    """Makes each axis distinct and orders axes by creation; it is never printed."""

    if TYPE_CHECKING:

        @property
        def extent(self) -> int | None: ...

    def _complete(self) -> None:
        super()._complete()
        lower, upper, step = self.lower, self.upper, self.step
        extent = None
        if type(upper) is Const and type(lower) is Const and type(step) is Const:
            by = step.value or 1  # `verify` refuses steps of 0
            extent = max(0, -((lower.value - upper.value) // by))
        _set_extent(self, extent)


_set_extent: Final = Axis.__dict__["extent"].__set__


class Size(Expr):
    """A symbolic extent >= 0, identified by its name."""

    own_kinds = SIZE
    name: str


class LocalSize(Size):
    """A size that a loop of a program gives its value, while a call runs.

    Its name is its own; texts call it `label`. With an `extent` it is below it.
    """

    label: str
    extent: Expr | None


class Param(Expr):
    """A formal operand of a combiner. Nominal."""

    own_kinds = PARAM
    name: str
    serial: int


class Call(Expr):
    """A scalar operation of `OPERATIONS`, or a scalar function."""

    has_operands = True
    op: str
    args: tuple[Expr, ...]

    def _complete(self) -> None:
        kinds = 0
        for e in self.args:
            kinds |= e.kinds
        if self.dtype.kind == "float":
            kinds |= FLOAT
        elif self.args[0].dtype.kind != "float":
            kinds |= INDEX | CONDITION if self.dtype.kind == "bool" else INDEX
        _set_kinds(self, kinds)


class Select(Expr):
    """`then` where `cond` holds, otherwise `orelse`; only the chosen side is evaluated."""

    __slots__ = ("below", "cond", "orelse", "then")
    own_kinds = SELECT
    cond: Expr
    then: Expr
    orelse: Expr

    def _complete(self) -> None:
        _set_select_below(self, (self.cond, self.then, self.orelse))
        super()._complete()


_set_select_below: Final = Select.__dict__["below"].__set__


class Cast(Expr):
    """`value` converted to the dtype."""

    __slots__ = ("below", "value")
    value: Expr

    @property
    def own_kinds(self) -> int:  # type: ignore[override]  # of the class elsewhere
        return INDICATOR if self.value.dtype.kind == "bool" else 0

    def _complete(self) -> None:
        _set_cast_below(self, (self.value,))
        super()._complete()


_set_cast_below: Final = Cast.__dict__["below"].__set__
