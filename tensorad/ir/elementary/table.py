"""The table of scalar functions: all that is known of one is its `Elementary`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from keyword import iskeyword
from typing import Any, Final

from tensorad.errors import DefinitionError
from tensorad.ir.dtypes import DTYPES, DType
from tensorad.ir.elementary.cost import FUNCTION, OperationCost
from tensorad.ir.elementary.emitter import Emitter
from tensorad.ir.nodes import OPERATIONS, Expr, operation

Partials = tuple[Expr | None, ...]


class Sign(IntEnum):
    """What is known of a number's sign: each is a case of the one before."""

    ANY = 0
    NONNEGATIVE = 1
    POSITIVE = 2


@dataclass(frozen=True, kw_only=True)
class FarAngles:
    """How a function of an angle is found of large angles, where its formula ends.

    Attributes:
        limit: from here on, by dtype.
        turn: added to the angle, in turns: a multiple of 1/4.
        parts: 2 to count half turns, 4 to count quarters: |remainder| <= pi/2 or pi/4.
        code: (emitter, remainder in float64, whether the quotient is odd) -> the value.
    """

    limit: dict[DType, float]
    turn: float
    parts: int
    code: Callable[[Emitter, str, str], str]


@dataclass(frozen=True, kw_only=True)
class Elementary:
    """A scalar function of floats.

    Attributes:
        name: in formulas, texts and `Call.op`.
        meaning: one line for its users.
        value: its value of float64 numbers or arrays, by NumPy: shares nothing with `code`.
        partials: (y, a, b, ...) -> one partial derivative per argument, y the function's own
            value; None is zero everywhere. Kinks and poles are told there.
        code: (emitter, a, b, ...) -> the register with the value, in scalars and vectors alike.
        sampled: the arguments between which it changes, for measurements of errors and time.
        slopes_at: points away from kinks and poles, where its derivative is tried.
        arity: how many arguments it takes.
        cost: of one value; one that is a single flop is written out, never called.
        latex: its name in LaTeX, or base^exponent with # for the argument; as `name` unless given.
        ufunc: NumPy's name of it; as `name` unless given.
        loops: whether its code has loops: then it is a helper function always.
        far: of an angle, how large ones are treated.
        finite_from: the signs of arguments from which on it is finite, but for overflow; None if
            nothing is known.
        sign: what is known of its values.
        keeps_sign: whether it is positive of positive arguments, and of 0 not negative.
    """

    name: str
    meaning: str
    value: Callable[..., Any]
    partials: Callable[..., Partials]
    code: Callable[..., str]
    sampled: tuple[float, float]
    slopes_at: tuple[float, ...] = (-1.3, 0.4, 1.7)
    arity: int = 1
    cost: OperationCost = FUNCTION
    latex: str = ""
    ufunc: str = ""
    loops: bool = False
    far: FarAngles | None = None
    finite_from: Sign | None = None
    sign: Sign = Sign.ANY
    keeps_sign: bool = False


FUNCTIONS: Final[dict[str, Elementary]] = {}
"""Every scalar function by its name."""


_WORDS: Final = frozenset((
    *DTYPES, "select", "min", "max", "sum", "prod", "any", "all", "argmin", "argmax",
    "stop_gradient", "stop_forward", "stop_reverse", "llvm",
))  # fmt: skip
"""What texts of formulas, and of their code, say of other things."""


def register(row: Elementary) -> None:
    """Add a function to the table.

    Raises:
        DefinitionError: the name is taken, no identifier, or a word of formulas.
    """
    if not (str(row.name).isidentifier() and str(row.name).isascii()) or iskeyword(row.name):
        raise DefinitionError(
            f"a function needs an identifier for a name, got {row.name!r}.",
            hint='give a name as functions of Python have, e.g. name="softsign".',
        )
    if row.name in FUNCTIONS or row.name in OPERATIONS:
        raise DefinitionError(
            f"there is a function {row.name} already.", hint="give yours another name."
        )
    if row.name in _WORDS:
        raise DefinitionError(
            f"{row.name}(...) means something else in formulas.", hint="give yours another name."
        )
    FUNCTIONS[row.name] = row


def apply(name: str, *args: Expr) -> Expr:
    """A function of the table at expressions: what partials are written with."""
    return operation.call(name, *args)


def is_elementary(op: str) -> bool:
    """Whether an operation takes many instructions: a scalar function, or a power."""
    return op in FUNCTIONS or op == "pow"


def is_costly(op: str) -> bool:
    """Whether an operation counts as a multiplication where work is counted."""
    return op in _COSTLY or op in FUNCTIONS


_COSTLY: Final = frozenset(("mul", "div", "floordiv", "mod", "pow"))
