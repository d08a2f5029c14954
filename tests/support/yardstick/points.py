"""Points of loops, one by one: index arithmetic in Python's integers.

Elements of tensors are data, those of constant tensors, too: nobody knows what a comparison with
them says. Bounds of loops may look constants up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tensorad.ir.expr import Axis, Call, Cast, Const, Expr, Read, Reduce, Select, Size
from tensorad.ir.tensor import Constant, Dim, dim_expr
from tensorad.ir.visit import children
from tests.support.yardstick.calculus import PLAIN

Point = Mapping[Expr, int]
UNKNOWN: Final = "unknown"
"""What data decide."""


def index(e: Expr, at: Point, *, tables: bool = False) -> Any:
    """The value of an expression at a point; UNKNOWN if data decide it.

    Args:
        tables: whether elements of constant tensors are known.
    """
    match e:
        case Const():
            return e.value
        case Axis() | Size():
            return at[e]
        case Select():
            return _either(e, at, tables)
        case Cast():
            x = index(e.value, at, tables=tables)
            return x if x is UNKNOWN else (float if e.dtype.is_float else int)(x)
        case Read(tensor=t) if tables and isinstance(t.op, Constant):
            return t.op.array[tuple([index(i, at, tables=True) for i in e.indices])].item()
        case Call():
            if e.op not in ("and", "or", "not") and not tables and is_data(e):
                return UNKNOWN
            args = [index(a, at, tables=tables) for a in e.args]
            if e.op in ("and", "or"):
                return _logical(e.op, args)
            return UNKNOWN if UNKNOWN in args else PLAIN[e.op](*args)
    return UNKNOWN


def _either(e: Select, at: Point, tables: bool) -> Any:
    chosen = index(e.cond, at, tables=tables)
    if chosen is not UNKNOWN:
        return index(e.then if chosen else e.orelse, at, tables=tables)
    sides = [index(side, at, tables=tables) for side in (e.then, e.orelse)]
    return sides[0] if sides[0] == sides[1] else UNKNOWN


def _logical(op: str, args: Sequence[Any]) -> Any:
    decisive = op == "or"
    if any(a is not UNKNOWN and bool(a) is decisive for a in args):
        return decisive
    return UNKNOWN if UNKNOWN in args else not decisive


class Conditions:
    """Conditions at points; each is evaluated once for each value of the axes in it."""

    def __init__(self) -> None:
        self._axes: dict[Expr, tuple[Expr, ...]] = {}
        self._found: dict[tuple[Expr, tuple[int, ...]], Any] = {}

    def _value(self, condition: Expr, at: Point) -> Any:
        if condition not in self._axes:
            leaves = [e for e in below(condition) if isinstance(e, (Axis, Size)) and e in at]
            self._axes[condition] = tuple(leaves)
        key = condition, tuple([at[a] for a in self._axes[condition]])
        if key not in self._found:
            self._found[key] = index(condition, at)
        return self._found[key]

    def may_hold(self, condition: Expr, at: Point) -> bool:
        """Whether it holds or data decide."""
        found = self._value(condition, at)
        return found is UNKNOWN or bool(found)

    def may_fail(self, condition: Expr, at: Point) -> bool:
        """Whether it does not hold or data decide."""
        found = self._value(condition, at)
        return found is UNKNOWN or not found


def points(axes: Sequence[Axis], at: Point) -> Iterator[dict[Expr, int]]:
    """Every point of nested axes."""
    if not axes:
        yield dict(at)
        return
    head, *rest = axes
    for n in range(*[index(b, at, tables=True) for b in (head.lower, head.upper, head.step)]):
        yield from points(rest, {**at, head: n})


def extent(n: Dim, sizes: Point) -> int:
    """Of a tensor's dimension."""
    return int(index(dim_expr(n), sizes))


def parts(condition: Expr) -> list[Expr]:
    """What is joined by "and"."""
    if isinstance(condition, Call) and condition.op == "and":
        return [p for a in condition.args for p in parts(a)]
    return [condition]


def below(*roots: Expr) -> dict[Expr, None]:
    """All nodes of expressions."""
    found: dict[Expr, None] = {}
    stack = list(roots)
    while stack:
        e = stack.pop()
        if e not in found:
            found[e] = None
            stack.extend(children(e))
    return found


def is_outer(condition: Expr, axes: Sequence[Axis]) -> bool:
    """Whether it is index arithmetic without these axes."""
    own = set(axes)
    return not is_data(condition) and not any(e in own for e in below(condition))


def is_data(*roots: Expr) -> bool:
    """Whether elements of tensors stand in expressions."""
    return any(isinstance(e, (Read, Reduce)) for e in below(*roots))
