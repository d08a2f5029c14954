"""Independent evaluation of index expressions, and checks over whole small domains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from tensorad.ir.expr import Axis, Call, Cast, Const, Expr, Read, Select, Size
from tensorad.ir.tensor import Constant
from tensorad.ir.visit import postorder
from tensorad.simplify.domain.solution import Solution

OPERATIONS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "neg": lambda a: -a,
    "abs": lambda a: abs(a),
    "minimum": lambda a, b: min(a, b),
    "maximum": lambda a, b: max(a, b),
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "not": lambda a: not a,
}

Point = dict[Expr, int]
Sizes = tuple[tuple[Expr, int], ...]
"""Their values."""


@lru_cache(maxsize=1024)
def _order(root: Expr) -> list[Expr]:
    """What is evaluated for an expression; most are evaluated at many points."""
    return postorder(root)


def evaluate(root: Expr, point: Mapping[Expr, int]) -> int:
    """The value of an integer or boolean expression of axes, sizes and constant tensors."""
    values: dict[Expr, int] = {}
    for e in _order(root):
        match e:
            case Const():
                values[e] = e.value
            case Axis() | Size():
                values[e] = point[e]
            case Call():
                values[e] = OPERATIONS[e.op](*[values[a] for a in e.args])
            case Select():
                values[e] = values[e.then] if values[e.cond] else values[e.orelse]
            case Cast():
                values[e] = int(values[e.value])
            case Read(tensor=t) if isinstance(t.op, Constant):
                at = tuple([values[i] for i in e.indices])
                inside = all(0 <= i < n for i, n in zip(at, t.op.array.shape, strict=True))
                values[e] = int(t.op.array[at]) if inside else 0
    return values[root]


def points(axes: Sequence[Axis], given: Mapping[Expr, int] | None = None) -> Iterator[Point]:
    """Every point of nested axes, in lexicographic order."""
    if not axes:
        yield dict(given or {})
        return
    head, *rest = axes
    outer = dict(given or {})
    start, stop, step = (evaluate(b, outer) for b in (head.lower, head.upper, head.step))
    for value in range(start, stop, step):
        yield from points(rest, {**outer, head: value})


@lru_cache(maxsize=8)
def domain(
    outer: tuple[Axis, ...], inner: tuple[Axis, ...], condition: Expr, sizes: Sizes
) -> list[tuple[Point, list[tuple[int, ...]]]]:
    """For each outer point the inner ones where the condition holds, sorted."""
    return [
        (
            x,
            sorted(
                [tuple(p[a] for a in inner) for p in points(inner, x) if evaluate(condition, p)]
            ),
        )
        for x in points(outer, dict(sizes))
    ]


def check_solution(
    outer: Sequence[Axis],
    inner: Sequence[Axis],
    condition: Expr,
    solution: Solution,
    sizes: Mapping[Expr, int] | None = None,
) -> tuple[int, int]:
    """Compare the pieces with the domain, point by point.

    Returns (points visited by the pieces, points of the domain).
    """
    visited = wanted_count = 0
    given = tuple((sizes or {}).items())
    for x, wanted in domain(tuple(outer), tuple(inner), condition, given):
        found = []
        for piece in solution.pieces:
            if not evaluate(piece.guard, x):
                continue
            for p in points(piece.axes, x):
                visited += bool(piece.axes)
                if evaluate(piece.residual, p):
                    found.append(tuple(evaluate(piece.values[a], p) for a in inner))
        assert sorted(found) == wanted, (
            f"at {[f'{a.name}={x[a]}' for a in outer]}: visited {found}, expected {wanted}"
        )
        wanted_count += len(wanted)
    return visited, wanted_count


def box(**extents: int) -> list[Axis]:
    """Axes [0, n) by name."""
    from tensorad.ir.expr import axis

    return [axis(name, 0, n) for name, n in extents.items()]


__all__ = ["box", "check_solution", "evaluate", "points"]
