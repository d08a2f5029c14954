"""The reference semantics of expressions: Python's numbers, floats in float64.

A formula has the same steps at every point. They are listed once for each interpretation, and
then done at every point: first what is always needed, then the side that each select takes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final

import numpy as np

from tensorad.errors import BindError, BoundsError, InternalError
from tensorad.ir.combiner import Combiner
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
    Number,
    Param,
    Read,
    Reduce,
    Select,
    Size,
)
from tensorad.ir.nodes import COMPARISONS
from tensorad.ir.order import children, postorder_along
from tensorad.ir.tensor import Tensor

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[Tensor, Array]
Scope = dict[Expr, Any]
"""Values of axes, sizes and combiner operands."""

Step = tuple[int, Callable[..., Any] | None, tuple[int, ...]]
"""Place of a value, the function that gives it, places of its arguments. None for a select, whose
arguments are the condition and the two sides."""

_UNSET: Final = object()
_ARRAYS, _SCOPE = 0, 1
_FIRST: Final = (_UNSET, _UNSET)


class Formulas:
    """Expressions at points; how each is evaluated is kept as long as this object.

    Args:
        eager: evaluate both sides of a select.
    """

    def __init__(self, eager: bool = False) -> None:
        self._known: dict[tuple[Expr, ...], Steps] = {}
        self.needed = _operands if eager else _needed

    def of(self, roots: Sequence[Expr]) -> Steps:
        """What gives the values of `roots`."""
        key = tuple(roots)
        steps = self._known.get(key)
        if steps is None:
            steps = self._known[key] = Steps(key, self)
        return steps

    def values(self, roots: Sequence[Expr], arrays: Arrays, scope: Scope) -> list[Any]:
        """The expressions' values; a select evaluates only the side it takes."""
        return self.of(roots)(arrays, scope)

    def points(
        self, axes: Sequence[Axis], arrays: Arrays, scope: Scope, reverse: bool = False
    ) -> Iterator[None]:
        """Each point in lexicographic order (or backwards), its indices set in `scope`."""
        fixed = [_fixed(a) for a in axes if a.extent is not None]
        if len(fixed) == len(axes):
            for where in product(*[p[::-1] for p in fixed] if reverse else fixed):
                scope.update(zip(axes, where))
                yield
        else:
            first, *others = axes
            bounds = self.values((first.lower, first.upper, first.step), arrays, scope)
            for n in reversed(range(*bounds)) if reverse else range(*bounds):
                scope[first] = n
                yield from self.points(others, arrays, scope, reverse)
        for a in axes:
            scope.pop(a, None)

    def reading(self, t: Tensor) -> Callable[..., Any]:
        """What gives an element of `t`, of the arrays and its indices."""

        def read(arrays: Arrays, *where: int) -> Any:
            array = arrays[t]
            check_index(t.name, where, array.shape, "read")
            return array.item(*where)

        return read

    def calling(self, e: Call) -> Callable[..., Any]:
        """`evaluate_call` of one operation; without NumPy where Python computes the same."""
        op, dtype = e.op, e.dtype
        if dtype.is_float:
            if op in _QUIET and all(a.dtype.is_float for a in e.args):
                return _QUIET[op]
            return lambda *args: evaluate_call(op, dtype, args)
        function = _EXACT[op]
        if op in COMPARISONS:
            return function
        if dtype.is_integer:
            return lambda *args: _wrapped(int(function(*args)), dtype)
        return lambda *args: bool(function(*args))

    def fold(self, e: Reduce, arrays: Arrays, scope: Scope) -> list[Any]:
        """All components of a reduction."""
        state: list[Any] = [c.value for c in e.combiner.identity]
        inner = dict(scope)
        holds = None if e.condition is TRUE else self.of((e.condition,))
        sources = self.of(e.sources)
        for _ in self.points(e.axes, arrays, inner):
            if holds is None or holds(arrays, inner)[0]:
                state = self.combine(e.combiner, state, sources(arrays, inner))
        return state

    def combine(self, c: Combiner, left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
        """The state after another element."""
        return self.of(c.results)({}, dict(zip((*c.lhs, *c.rhs), (*left, *right), strict=True)))


class Steps:
    """How expressions are evaluated: a place for the value of each node, and an order."""

    def __init__(self, roots: tuple[Expr, ...], formulas: Formulas) -> None:
        self.formulas = formulas
        nodes = postorder_along(roots, _operands)
        self.places = {e: n for n, e in enumerate(nodes, len(_FIRST))}
        self.start: list[Any] = [*_FIRST, *[_constant(e) for e in nodes]]
        self.leaves = [(n, e) for e, n in self.places.items() if isinstance(e, _SCOPED)]
        self.folds = {_whole(e): 0 for e in nodes if isinstance(e, Reduce)}
        for whole in self.folds:
            self.folds[whole] = len(self.start)
            self.start.append(_UNSET)
        self.always = postorder_along(roots, formulas.needed)
        self.steps = self._listed([e for e in nodes if e in self.always])
        self.sides: dict[tuple[int, int], list[Step]] = {}
        self.nodes = list(nodes)
        self.results = [self.places[r] for r in roots]

    def __call__(self, arrays: Arrays, scope: Scope) -> list[Any]:
        """The values at a point."""
        values = self.start.copy()
        values[_ARRAYS], values[_SCOPE] = arrays, scope
        for n, leaf in self.leaves:
            if leaf in scope:
                values[n] = scope[leaf]
        get = values.__getitem__
        waiting = [iter(self.steps)]
        while waiting:
            for place, function, operands in waiting[-1]:
                if values[place] is not _UNSET:
                    continue
                if function is None:
                    waiting.append(iter(self._side(place, operands[1 if get(operands[0]) else 2])))
                    break
                values[place] = function(*map(get, operands))
            else:
                waiting.pop()
        return [values[n] for n in self.results]

    def _side(self, place: int, side: int) -> list[Step]:
        """The steps of one side of a select, whose value becomes that of the select."""
        steps = self.sides.get((place, side))
        if steps is None:
            root = self.nodes[side - len(_FIRST)]
            needed = postorder_along((root,), self.formulas.needed)
            steps = self._listed([e for e in needed if e not in self.always])
            steps.append((place, _same, (side,)))
            self.sides[place, side] = steps
        return steps

    def _listed(self, nodes: Sequence[Expr]) -> list[Step]:
        steps: list[Step] = []
        for e in nodes:
            if isinstance(e, Reduce):
                steps.append(self._fold(e))
            if not isinstance(e, Const):
                steps.append(self._step(e))
        return steps

    def _fold(self, e: Reduce) -> Step:
        """The step of all components together."""
        fold = self.formulas.fold
        place = self.folds[_whole(e)]
        return place, lambda arrays, scope: fold(e, arrays, scope), (_ARRAYS, _SCOPE)

    def _step(self, e: Expr) -> Step:
        """One node from its operands' values."""
        place = self.places[e]
        operands = tuple([self.places[c] for c in _operands(e)])
        match e:
            case Axis() | Size() | Param():
                return place, lambda: _unbound(e), ()
            case Select():
                return place, None, operands
            case Reduce():
                return place, operator.itemgetter(e.index), (self.folds[_whole(e)],)
            case Read():
                return place, self.formulas.reading(e.tensor), (_ARRAYS, *operands)
            case Call():
                return place, self.formulas.calling(e), operands
            case Cast():
                return place, lambda value: _convert(value, e.dtype), operands
            case Apply():
                return place, self._applying(e), (_ARRAYS, *operands)
        raise InternalError(f"unknown expression class {type(e).__name__}")

    def _applying(self, e: Apply) -> Callable[..., Any]:
        result, params = (e.function.result,), e.function.params
        values = self.formulas.values
        return lambda arrays, *args: values(result, arrays, dict(zip(params, args)))[0]


_SCOPED: Final = (Axis, Size, Param)


def _operands(e: Expr) -> Sequence[Expr]:
    """The operands at the same point; a reduction evaluates its own, point by point."""
    return () if isinstance(e, Reduce) else children(e)


def _needed(e: Expr) -> Sequence[Expr]:
    """The operands that are needed in any case."""
    return (e.cond,) if isinstance(e, Select) else _operands(e)


def _whole(e: Reduce) -> object:
    """What the components of a reduction have in common."""
    return e.combiner, e.sources, e.axes, e.condition


def _fixed(a: Axis) -> range:
    """The values of an axis whose bounds are constants."""
    lower, upper, step = (_constant(b) for b in (a.lower, a.upper, a.step))
    return range(lower, upper, step)


def _constant(e: Expr) -> Any:
    return e.value if isinstance(e, Const) else _UNSET


def _same(value: Any) -> Any:
    return value


def _unbound(e: Expr) -> Any:
    if isinstance(e, Size):
        raise BindError(
            f"the size {e} has no value.",
            hint=f"pass sizes={{'{e.name}': 8}}, or an array whose shape contains {e.name}.",
        )
    raise InternalError(f"{e} is used outside its scope")


def check_index(name: str, where: Sequence[int], shape: Sequence[int], verb: str) -> None:
    """Whether an element is inside.

    Raises:
        BoundsError: it is not.
    """
    for i, n in zip(where, shape, strict=True):
        if not 0 <= i < n:
            index = ", ".join(map(str, where))
            raise BoundsError(
                f"{name} is {verb} outside its shape {tuple(shape)}.",
                where=f"{name}[{index}]",
                hint="guard the index with select(...) or where=.",
            )


def _convert(value: Number, dtype: DType) -> Number:
    """Floats go towards 0, to the nearest end beyond the range, NaN to 0; integers wrap."""
    if dtype.is_float:
        return float(value)
    if not dtype.is_integer:
        return bool(value)
    if not isinstance(value, float):
        return _wrapped(int(value), dtype)
    if value != value:
        return 0
    low, high = int(dtype.lowest), int(dtype.highest)
    if value <= low:
        return low
    return high if value >= high else math.trunc(value)


def _wrapped(value: int, dtype: DType) -> int:
    """The number in the range of the dtype that is as far as whole turns from this one."""
    low = int(dtype.lowest)
    return (value - low) % (1 << dtype.bits) + low


def evaluate_call(op: str, dtype: DType, args: Sequence[Any]) -> Number:
    """`op` of numbers: floats in float64, integers wrapped into `dtype`."""
    if dtype.is_float:
        if op in _QUIET and all(type(a) is float for a in args):
            return float(_QUIET[op](*args))
        function = FUNCTIONS[op].value if op in FUNCTIONS else _FLOAT[op]
        with np.errstate(all="ignore"):
            return float(function(*[np.float64(a) for a in args]))
    result = _EXACT[op](*args)
    return _wrapped(int(result), dtype) if dtype.is_integer else bool(result)


def _larger(x: Any, y: Any) -> Any:
    """The first NaN, else the larger, else (on a tie) the first."""
    if x != x or (y == y and not y > x):
        return x
    return y


def _smaller(x: Any, y: Any) -> Any:
    """The first NaN, else the smaller, else (on a tie) the first."""
    if x != x or (y == y and not y < x):
        return x
    return y


_FLOAT: Final[dict[str, Callable[..., Any]]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power,
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "minimum": _smaller, "maximum": _larger,
    "floor": np.floor, "ceil": np.ceil, "round": np.rint, "trunc": np.trunc,
}  # fmt: skip

_QUIET: Final[dict[str, Callable[..., Any]]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "neg": operator.neg, "abs": abs,
    "minimum": _smaller, "maximum": _larger,
}  # fmt: skip
"""Operations on Python's floats that round as IEEE 754 says and never raise."""

_EXACT: Final[dict[str, Callable[..., Any]]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul,
    "floordiv": lambda x, y: x // y if y else 0, "mod": lambda x, y: x % y if y else 0,
    "pow": lambda x, y: pow(x, y, 1 << 64) if y >= 0 else 0,
    "neg": operator.neg, "abs": abs, "sign": lambda x: (x > 0) - (x < 0),
    "minimum": _smaller, "maximum": _larger,
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq": operator.eq, "ne": operator.ne, "and": lambda x, y: x and y,
    "or": lambda x, y: x or y, "not": operator.not_, "isnan": math.isnan,
    "isfinite": math.isfinite,
}  # fmt: skip
