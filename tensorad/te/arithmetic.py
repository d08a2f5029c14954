"""Arithmetic on axes stays within int64 wherever it must be exact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tensorad.errors import DefinitionError
from tensorad.ir.dtypes import INT64
from tensorad.ir.expr import COMPARISONS, Axis, Call, Const, Expr, Read, Select
from tensorad.ir.order import DATA, INDEX, PARAM, READ, above, occurs
from tensorad.simplify.index.intervals import intervals, overflows

_EXACT: Final = dict.fromkeys(
    ("floordiv", "mod", "minimum", "maximum", "abs", "sign", *COMPARISONS)
)
"""Operations whose value for wrapped operands differs from that for exact ones."""
_FEW_BITS: Final = 31
"""Sums of numbers of so many bits, and their multiples by such numbers, cannot wrap."""


def check_arithmetic(name: str, roots: Sequence[Expr], exact: Sequence[Expr] = ()) -> None:
    """Integers wrap, but what is divided, compared or used as an index must not.

    Loops, bounds and integer sets are derived from such formulas as from whole numbers. Only
    arithmetic on axes is asked about: data is left as written and wraps.

    Args:
        exact: which of the roots are indices.
    Raises:
        DefinitionError: a formula of axes that must be exact leaves int64.
    """
    nodes = above(INDEX, *roots) if occurs(INDEX, *roots) else []
    if not _may_be_large(nodes):
        return
    parts = _exact_parts([*exact, *[p for e in nodes for p in _must_be_exact(e)]])
    ranges = intervals(parts)
    for e in parts:
        if not e.kinds & (DATA | READ | PARAM) and overflows(e, ranges):
            raise DefinitionError(
                f"{e} leaves the range of int64, and it is divided, compared or used as an index.",
                where=f"the body of {name}",
                hint="make its numbers smaller; arithmetic that is to wrap needs data as operand.",
            )


def _may_be_large(nodes: Sequence[Expr]) -> bool:
    """Whether factors of an axis have many bits together.

    Args:
        nodes: operands before what they are in.
    """
    bits: dict[Expr, int] = {}
    for e in nodes:
        if isinstance(e, Select):
            bits[e] = max(bits.get(e.then, 0), bits.get(e.orelse, 0))
        if not isinstance(e, Call) or e.dtype is not INT64:
            continue
        numbers = [a.value for a in e.args if isinstance(a, Const)]
        found = [int(n).bit_length() for n in numbers] + [bits.get(a, 0) for a in e.args]
        bits[e] = sum(found) if e.op == "mul" else max(found)
        if bits[e] > _FEW_BITS or (e.op == "mul" and not numbers):
            return True
    return False


def _must_be_exact(e: Expr) -> tuple[Expr, ...]:
    """The operands that a node needs as whole numbers."""
    match e:
        case Call(op=op, args=args) if op in _EXACT and args[0].dtype is INT64:
            return args
        case Read(indices=indices):
            return indices
        case Axis():
            return (e.lower, e.upper, e.step)
    return ()


def _exact_parts(roots: Sequence[Expr]) -> list[Expr]:
    """Everything that the numbers at the roots are made of by int64 arithmetic."""
    found: dict[Expr, None] = {}
    stack = list(roots)
    while stack:
        e = stack.pop()
        if e in found:
            continue
        found[e] = None
        if isinstance(e, Call) and e.dtype is INT64:
            stack.extend(e.args)
        elif isinstance(e, Select) and e.dtype is INT64:
            stack.extend((e.then, e.orelse))
    return list(found)
