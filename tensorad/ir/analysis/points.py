"""How many points a nest of axes and guards has: exact, enumerating only the axes that matter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tensorad.errors import CountError, InternalError, UserError
from tensorad.ir.dtypes import DType
from tensorad.ir.expr import (
    FUNCTIONS,
    TRUE,
    Apply,
    Axis,
    Call,
    Cast,
    Const,
    Expr,
    LocalSize,
    Read,
    Select,
    Size,
    logical_and,
    logical_not,
    logical_or,
)
from tensorad.ir.order import PARAM, READ, REDUCE, axes_in, occurs
from tensorad.ir.tensor import Constant
from tensorad.ir.visit import children, conjuncts, postorder

Values = np.ndarray[Any, np.dtype[Any]]
_MOST_ROWS: Final = 1 << 21
"""Points held at a time; larger enumerations go piece by piece."""
_MOST_VALUES: Final = 1 << 24
"""Values of expressions held at a time when many conditions are evaluated together."""


def count_points(items: Sequence[Expr], sizes: Mapping[Expr, int]) -> int:
    """How often the innermost body runs. `items`: axes and conditions, outermost first.

    Conditions must be index arithmetic (see `possible`).

    Raises:
        UserError: a size has no value.
    """
    total = 1
    for part in independent_parts(items):
        total *= _count_part(part, sizes)
        if total == 0:
            return 0
    return total


def count_alternatives(
    items: Sequence[Expr], conditions: Sequence[Expr], sizes: Mapping[Expr, int]
) -> list[int]:
    """`count_points([*items, c])` for each of many conditions, all evaluated together."""
    order = postorder(*conditions)
    used: dict[Expr, None] = {e: None for e in order if isinstance(e, Axis)}
    factor = 1
    joint: dict[Expr, None] = {}
    for part in independent_parts(items):
        if any(i in used for i in part):
            joint.update(dict.fromkeys(part))
        else:
            factor *= _count_part(part, sizes)
    totals = [0] * len(conditions)
    if factor == 0:
        return totals
    split = [c for i in items for c in ([i] if isinstance(i, Axis) else conjuncts(i))]
    piece = max(256, _MOST_VALUES // len(order))
    for rows in _enumerate([i for i in split if i in joint], sizes, used):
        for start in range(0, len(rows.weights), piece):
            part_rows = rows.take(slice(start, start + piece))
            for n, holds in enumerate(evaluate(conditions, part_rows.columns, sizes)):
                totals[n] += int(np.where(holds, part_rows.weights, 0).sum())
    return [factor * n for n in totals]


def independent_parts(items: Sequence[Expr]) -> list[list[Expr]]:
    """The items split so that no axis or condition of one part uses an axis of another."""
    leader: dict[Axis, Axis] = {a: a for a in items if isinstance(a, Axis)}

    def find(a: Axis) -> Axis:
        while leader[a] is not a:
            a = leader[a]
        return a

    split = [c for i in items for c in ([i] if isinstance(i, Axis) else conjuncts(i) or [TRUE])]
    mentioned = [[a for a in axes_of(i) if a in leader] for i in split]
    for axes in mentioned:
        for a in axes[1:]:
            leader[find(a)] = find(axes[0])
    parts: dict[Axis | None, list[Expr]] = {}
    for i, axes in zip(split, mentioned, strict=True):
        if i is not TRUE:
            parts.setdefault(find(axes[0]) if axes else None, []).append(i)
    return list(parts.values())


def axes_of(item: Expr) -> list[Axis]:
    """The axes an item mentions: an axis itself and those in its bounds."""
    if isinstance(item, Axis):
        bounds = (item.lower, item.upper, item.step)
        return [item, *axes_in(*bounds)]
    return axes_in(item)


def depends_on_data(*roots: Expr) -> bool:
    """Whether a tensor's elements decide the value."""
    return occurs(READ | REDUCE | PARAM, *roots)


def possible(condition: Expr, memo: dict[tuple[Expr, bool], Expr] | None = None) -> Expr:
    """The index arithmetic in a condition: comparisons of data count as true.

    Either way of a comparison of data is possible: not (x > 0) counts as true as well.
    """
    done = {} if memo is None else memo
    stack = [(condition, True)]
    while stack:
        key = stack[-1]
        if key in done:
            stack.pop()
            continue
        parts = _parts_of(*key)
        missing = [p for p in parts if p not in done]
        if missing:
            stack.extend(missing)
            continue
        done[key] = _join(*key, [done[p] for p in parts])
        stack.pop()
    return done[condition, True]


def _parts_of(e: Expr, wanted: bool) -> list[tuple[Expr, bool]]:
    if isinstance(e, Call) and e.op == "not":
        return [(e.args[0], not wanted)]
    if isinstance(e, Call) and e.op in ("and", "or"):
        return [(a, wanted) for a in e.args]
    if isinstance(e, Select):
        return [(e.cond, True), (e.then, wanted), (e.cond, False), (e.orelse, wanted)]
    return []


def _join(e: Expr, wanted: bool, parts: list[Expr]) -> Expr:
    if isinstance(e, Call) and e.op == "not":
        return parts[0]
    if isinstance(e, Call) and e.op in ("and", "or"):
        return logical_and(*parts) if (e.op == "and") is wanted else logical_or(*parts)
    if isinstance(e, Select):
        cond, then, other, orelse = parts
        return logical_or(logical_and(cond, then), logical_and(other, orelse))
    if depends_on_data(e):
        return TRUE
    return e if wanted else logical_not(e)


class _Rows:
    """Points enumerated so far: the values of the axes still needed, and how many each is."""

    def __init__(self, position: int, columns: dict[Expr, Values], weights: Values) -> None:
        self.position = position
        self.columns = columns
        self.weights = weights

    def take(self, index: Values | slice) -> _Rows:
        columns = {a: c[index] for a, c in self.columns.items()}
        return _Rows(self.position, columns, self.weights[index])

    def keep(self, axes: Mapping[Expr, None]) -> None:
        """Forget other axes and merge the points that have become equal."""
        if len(axes) == len(self.columns):
            return
        self.columns = {a: self.columns[a] for a in axes}
        if not axes:
            self.weights = self.weights.sum(keepdims=True)
            return
        key = np.zeros(len(self.weights), dtype=np.int64)
        for c in self.columns.values():
            start = int(c.min(initial=0))
            key = key * (int(c.max(initial=0)) - start + 1) + (c - start)
        order = np.argsort(key, kind="stable")
        first = np.flatnonzero(np.diff(key[order], prepend=-1))
        if len(first) < len(key):
            self.weights = np.add.reduceat(self.weights[order], first)
            self.columns = {a: c[order][first] for a, c in self.columns.items()}


def _count_part(items: Sequence[Expr], sizes: Mapping[Expr, int]) -> int:
    return sum([int(rows.weights.sum()) for rows in _enumerate(items, sizes, {})])


def _enumerate(
    items: Sequence[Expr], sizes: Mapping[Expr, int], wanted: Mapping[Expr, None]
) -> Iterator[_Rows]:
    """The points of a nest, piece by piece, with the values of the `wanted` axes."""
    needed_after = _needed_after(items, wanted)
    stack = [_Rows(0, {}, np.ones(1, dtype=np.int64))]
    while stack:
        rows = stack.pop()
        if rows.position == len(items):
            yield rows
            continue
        item = items[rows.position]
        if isinstance(item, Axis):
            stack.extend(_enter(item, rows, needed_after[rows.position], sizes))
            continue
        holds = np.broadcast_to(evaluate((item,), rows.columns, sizes)[0], rows.weights.shape)
        rows = rows.take(holds.astype(bool))
        if len(rows.weights):
            rows.keep(needed_after[rows.position])
            rows.position += 1
            stack.append(rows)


def _needed_after(items: Sequence[Expr], wanted: Mapping[Expr, None]) -> list[dict[Expr, None]]:
    """For each item, the axes before or at it that are wanted or mentioned later."""
    last: dict[Expr, int] = dict.fromkeys(wanted, len(items))
    first: dict[Expr, int] = {}
    for n, i in enumerate(items):
        mentioned = axes_of(i)
        for a in mentioned[1:] if isinstance(i, Axis) else mentioned:
            last[a] = max(n, last.get(a, n))
        if isinstance(i, Axis):
            first[i] = n
    return [{a: None for a in first if first[a] <= n < last.get(a, -1)} for n in range(len(items))]


def _enter(
    a: Axis, rows: _Rows, keep: Mapping[Expr, None], sizes: Mapping[Expr, int]
) -> list[_Rows]:
    """The rows inside the loop over `a`; halves of the rows before it if they are too many."""
    bounds = evaluate((a.lower, a.upper, a.step), rows.columns, sizes)
    lower, upper, step = (np.broadcast_to(b, rows.weights.shape) for b in bounds)
    lengths = np.maximum(0, -((lower - upper) // np.maximum(step, 1)))
    if a not in keep:
        rows.weights = rows.weights * lengths
        rows = rows.take(rows.weights > 0)
        if not len(rows.weights):
            return []
        rows.keep(keep)
        rows.position += 1
        return [rows]
    if lengths.sum() > _MOST_ROWS and len(lengths) > 1:
        half = len(lengths) // 2
        return [rows.take(slice(half, None)), rows.take(slice(0, half))]
    inside = []
    total = int(lengths.sum())
    for start in range(0, total, _MOST_ROWS):
        stop = min(total, start + _MOST_ROWS)
        if len(lengths) == 1:
            index = np.zeros(stop - start, dtype=np.int64)
            offset = np.arange(start, stop)
        else:
            index = np.repeat(np.arange(len(lengths)), lengths)
            offset = np.arange(total) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        piece = rows.take(index)
        piece.columns[a] = lower[index] + step[index] * offset
        piece.keep(keep)
        piece.position += 1
        inside.append(piece)
    return inside


def evaluate(
    roots: Sequence[Expr], columns: Mapping[Expr, Values], sizes: Mapping[Expr, int]
) -> list[Values]:
    """Index arithmetic, reads of constant tables included, over arrays of axis values."""
    values: dict[Expr, Values] = dict(columns)
    for e in postorder(*roots):
        if e not in values:
            values[e] = _value(e, [values[c] for c in children(e)], sizes)
    return [values[r] for r in roots]


def _value(e: Expr, args: list[Values], sizes: Mapping[Expr, int]) -> Values:
    match e:
        case Const():
            return np.asarray(e.value)
        case Size():
            if e not in sizes:
                error = CountError if isinstance(e, LocalSize) else UserError
                raise error(
                    f"the count depends on the size {e} in a way that has no polynomial.",
                    hint=f'give its value: work(..., sizes={{"{e.name}": 8}}).',
                )
            return np.asarray(sizes[e])
        case Select():
            return np.where(*args)
        case Cast():
            return _converted(args[0], e.dtype)
        case Apply():
            columns: dict[Expr, Values] = dict(zip(e.function.params, args, strict=True))
            return evaluate((e.function.result,), columns, sizes)[0]
        case Read(tensor=t) if isinstance(t.op, Constant):
            return _wide(_look_up(t.op.array, args))
        case Call():
            function = FUNCTIONS[e.op].value if e.op in FUNCTIONS else OPERATIONS[e.op]
            with np.errstate(all="ignore"):
                return _wrapped(np.asarray(function(*args)), e.dtype)
    if depends_on_data(e):
        raise CountError(
            "data decide how often a loop runs.",
            where=str(e),
            hint="count the tensors it is computed from.",
        )
    raise InternalError(f"{type(e).__name__} {e} is no index arithmetic")


def _converted(x: Values, dtype: DType) -> Values:
    """Floats become integers by truncation, saturated, NaN 0; integers wrap."""
    if not dtype.is_integer:
        return x.astype(np.float64 if dtype.is_float else np.bool_)
    if x.dtype.kind != "f":
        return _wrapped(x.astype(np.int64), dtype)
    low, high = int(dtype.lowest), int(dtype.highest)
    inside = np.where((x >= low) & (x < high), x, 0).astype(np.int64)
    return np.where(x >= high, high, np.where(x < low, low, inside))


def _wrapped(x: Values, dtype: DType) -> Values:
    """Integers modulo 2**bits in the range of their dtype, in 64 bits as all of them."""
    if not dtype.is_integer or dtype.bits == 64:
        return x
    return x.astype(np.dtype(dtype)).astype(np.int64)


def _wide(x: Values) -> Values:
    """Elements of a table in the dtypes in which everything is computed."""
    return x.astype({"f": np.float64, "b": np.bool_}.get(x.dtype.kind, np.int64))


def _look_up(table: Values, indices: Sequence[Values]) -> Values:
    """Elements of a table; 0 outside of it (where a condition switches the point off)."""
    if 0 in table.shape:
        return np.zeros(np.broadcast_shapes(*[i.shape for i in indices]), dtype=table.dtype)
    inside = np.asarray(True)
    for i, n in zip(indices, table.shape, strict=True):
        inside = inside & (i >= 0) & (i < n)
    at = [np.clip(i, 0, n - 1) for i, n in zip(indices, table.shape, strict=True)]
    return np.where(inside, table[tuple(at)], 0)


def _floordiv(x: Values, y: Values) -> Values:
    return np.where(y == 0, 0, np.floor_divide(x, np.where(y == 0, 1, y)))


def _mod(x: Values, y: Values) -> Values:
    return np.where(y == 0, 0, np.mod(x, np.where(y == 0, 1, y)))


def _pow(x: Values, y: Values) -> Values:
    """A negative power of an integer is 0."""
    if x.dtype.kind == "f" or y.dtype.kind == "f":
        return np.asarray(np.power(x, y))
    return np.where(y < 0, 0, np.power(x, np.maximum(y, 0)))


OPERATIONS: Final[dict[str, Callable[..., Any]]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "floordiv": _floordiv, "mod": _mod, "minimum": np.minimum, "maximum": np.maximum,
    "pow": _pow, "neg": np.negative, "abs": np.abs, "sign": np.sign,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "eq": np.equal, "ne": np.not_equal, "and": np.logical_and, "or": np.logical_or,
    "not": np.logical_not, "floor": np.floor, "ceil": np.ceil, "round": np.rint,
    "trunc": np.trunc, "isnan": np.isnan, "isfinite": np.isfinite,
}  # fmt: skip
"""Index arithmetic on arrays; a division by 0 gives 0, a negative power of an integer 0."""
