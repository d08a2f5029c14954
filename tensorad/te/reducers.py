"""Reducers of elements over reduce axes: the built-in ones and the user's own."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from tensorad.errors import CombinerError, DefinitionError, DTypeError, counted
from tensorad.ir.arrays.tracing import in_formula
from tensorad.ir.combiner import (
    BY_NAME,
    Combiner,
    all_combiner,
    any_combiner,
    arg_combiner,
    make_combiner,
    max_combiner,
    min_combiner,
    prod_combiner,
    row_major_position,
    sum_combiner,
)
from tensorad.ir.dtypes import BOOL, INT64, WEAK_FLOAT, WEAK_INT, DType, to_dtype
from tensorad.ir.expr import (
    TRUE,
    Axis,
    Const,
    Expr,
    Number,
    Param,
    Reduce,
    call,
    cast,
    const,
    logical_and,
    logical_or,
    reduce_expr,
    select,
    sub,
)
from tensorad.ir.functions import stops_one_mode
from tensorad.ir.tensor import Tensor
from tensorad.te.checks import check_name, element, excerpt, foreign_leaf, operand

Element = Expr | Tensor | Number
"""One element of a formula; a tensor must be 0-d."""
Axes = Axis | Sequence[Axis]


def sum(expr: Element, axis: Axes, where: Element | None = None) -> Expr:
    """The sum of `expr` over the axes where the condition holds (bool counts as int64)."""
    return _builtin("sum", sum_combiner, expr, axis, where)


def prod(expr: Element, axis: Axes, where: Element | None = None) -> Expr:
    """The product of `expr` over the axes where the condition holds (bool counts as int64)."""
    return _builtin("prod", prod_combiner, expr, axis, where)


def max(expr: Element, axis: Axes, where: Element | None = None) -> Expr:
    """The largest `expr`; NaN wins; -inf or the smallest integer if there is none."""
    return _builtin("max", max_combiner, expr, axis, where)


def min(expr: Element, axis: Axes, where: Element | None = None) -> Expr:
    """The smallest `expr`; NaN wins; +inf or the largest integer if there is none."""
    return _builtin("min", min_combiner, expr, axis, where)


def any_of(*conditions: Any, axis: Axes | None = None, where: Element | None = None) -> Expr:
    """Whether a condition holds: one of those listed, or `any_of(c, axis=k)` at some point.

    Of several, one is evaluated where none before it holds; `a | b` is `any_of(a, b)`.
    """
    return _quantifier("any_of", any_combiner, logical_or, conditions, axis, where)


def all_of(*conditions: Any, axis: Axes | None = None, where: Element | None = None) -> Expr:
    """Whether all conditions hold: those listed, or `all_of(c, axis=k)` at every point.

    Of several, one is evaluated where all before it hold, so that they may guard its reads;
    `a & b` is `all_of(a, b)`.
    """
    return _quantifier("all_of", all_combiner, logical_and, conditions, axis, where)


def argmax(expr: Element, axis: Axes, where: Element | None = None) -> Expr:
    """The row-major position (int64) of the first largest `expr` over the listed axes."""
    return _position("argmax", "maximum", expr, axis, where)


def argmin(expr: Element, axis: Axes, where: Element | None = None) -> Expr:
    """The row-major position (int64) of the first smallest `expr` over the listed axes."""
    return _position("argmin", "minimum", expr, axis, where)


def _builtin(
    name: str,
    make: Callable[[DType], Combiner],
    expr: Element,
    axis: Axes,
    where: Element | None,
) -> Expr:
    source = operand(f"the operand of {name}", expr)
    if source.dtype is BOOL and name in ("sum", "prod"):
        source = cast(source, INT64)
    if source.dtype is WEAK_INT:  # a narrow integer beside it could not hold what is counted
        source = cast(source, WEAK_FLOAT)
    (fold,) = _fold(name, make(to_dtype(source.dtype)), (source,), axis, where)
    if source.dtype.is_weak and isinstance(fold, Reduce):
        return Reduce(source.dtype, fold.combiner, (source,), fold.axes, fold.condition, 0)
    return fold


def _quantifier(
    name: str,
    make: Callable[[], Combiner],
    join: Callable[..., Expr],
    conditions: tuple[Any, ...],
    axis: Axes | None,
    where: Element | None,
) -> Expr:
    *conditions_only, last = conditions or (None,)
    if axis is None and len(conditions) == 2 and isinstance(last, (Axis, list, tuple)):
        conditions, axis = tuple(conditions_only), last
    parts = [_condition(name, f"operand {n}", c) for n, c in enumerate(conditions)]
    if axis is None and where is None:
        return join(*parts)
    if axis is None or len(parts) != 1:
        raise DefinitionError(
            f"{name} over axes takes one condition and axis=..., got "
            f"{counted(len(parts), 'condition')}{' and no axis' if axis is None else ''}.",
            hint=f"join conditions first: {name}({name}(a, b), axis=k).",
        )
    return _fold(name, make(), (parts[0],), axis, where)[0]


def _position(name: str, op: str, expr: Element, axis: Axes, where: Element | None) -> Expr:
    source = element(f"the operand of {name}", expr)
    axes = _check_axes(name, axis)
    position = row_major_position(
        tuple([sub(a, a.lower) for a in axes]), tuple([sub(a.upper, a.lower) for a in axes])
    )
    return _fold(name, arg_combiner(op, source.dtype), (source, position), axes, where)[1]


def _fold(
    name: str,
    combiner: Combiner,
    sources: tuple[Expr, ...],
    axis: Axes,
    where: Element | None,
) -> tuple[Expr, ...]:
    axes = _check_axes(name, axis)
    condition = TRUE if where is None else _condition(name, "where", where)
    return tuple(
        [reduce_expr(combiner, sources, axes, condition, n) for n in range(combiner.arity)]
    )


def _check_axes(name: str, axis: object) -> tuple[Axis, ...]:
    axes = tuple(axis) if isinstance(axis, (list, tuple)) else (axis,)
    if not axes:
        raise DefinitionError(
            f"{name} has no axis to reduce over.", hint="list at least one reduce_axis."
        )
    for n, a in enumerate(axes):
        if not isinstance(a, Axis):
            given = f"tensor {a.name}" if isinstance(a, Tensor) else str(a)
            hint = "k = reduce_axis(n) ... axis=k; topi reduces a tensor along a numbered axis."
            if name in ("max", "min"):
                hint = f"the {name} of two values is {name}imum(a, b); " + hint
            raise DefinitionError(
                f"{name} reduces over axes made by reduce_axis, got {given}.", hint=hint
            )
        if any(a is b for b in axes[:n]):
            raise DefinitionError(
                f"{name} lists reduce axis {a.name} twice.",
                hint="make one reduce_axis for each loop.",
            )
    return axes


def _condition(name: str, what: str, value: object) -> Expr:
    e = element(f"{what} of {name}", value, BOOL)
    if e.dtype is not BOOL:
        raise DTypeError(
            f"{what} of {name} must be a condition, got {e.dtype}.",
            where=excerpt(e),
            hint="compare it with something, e.g. x != 0.",
        )
    return e


@dataclass(frozen=True, eq=False)
class Reducer:
    """A user's reducer: called as `reducer(expr, axis=k, where=None)`, tuples in and out.

    `made` keeps one combiner for each tuple of source dtypes.
    """

    name: str
    fcombine: Callable[..., Any]
    fidentity: Callable[..., Any]
    associative: bool = False
    made: dict[tuple[object, ...], Combiner] = field(default_factory=dict, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return Reducer, (self.name, self.fcombine, self.fidentity, self.associative)

    def __call__(self, expr: Any, axis: Axes, where: Element | None = None) -> Any:
        """The fold of an expression, or of a tuple of expressions (then a tuple)."""
        many = isinstance(expr, (tuple, list))
        parts = tuple(expr) if many else (expr,)
        sources = tuple([element(f"the operand of {self.name}", e) for e in parts])
        combiner = self.combiner(tuple([s.dtype for s in sources]), many)
        results = _fold(self.name, combiner, sources, axis, where)
        return results if many else results[0]

    def combiner(self, dtypes: tuple[DType, ...], many: bool) -> Combiner:
        """The fold step over sources of these dtypes; `many`: operands come as tuples.

        Raises:
            CombinerError: arities or dtypes do not fit.
        """
        key = (many, *dtypes)
        if key not in self.made:
            identity = self._identity(dtypes, many)
            self._check_parameters("combiner", self.fcombine, "xy", "two operands")
            made = make_combiner(
                self.name,
                lambda x, y: self._combine(x, y, many),
                identity,
                associative=self.associative,
            )
            if stops_one_mode(made.results):
                raise CombinerError(
                    f"the combiner of {self.name} stops derivatives in one mode.",
                    hint="stop what is reduced: sum(stop_gradient(x, mode=...)); a combiner may "
                    "stop both modes.",
                )
            self.made.setdefault(key, made)
        return self.made[key]

    def _check_parameters(
        self, what: str, function: Callable[..., Any], given: Sequence[object], meaning: str
    ) -> None:
        try:
            inspect.signature(function).bind(*given)
        except TypeError:
            raise CombinerError(
                f"the {what} of {self.name} cannot be called with {meaning}.",
                hint="comm_reducer(lambda x, y: ..., lambda dtype: ..., name); for tuples x and y "
                "are tuples, and the identity takes one dtype for each component.",
            ) from None
        except ValueError:  # a builtin without a signature: the call itself will tell
            return

    def _identity(self, dtypes: tuple[DType, ...], many: bool) -> tuple[Const, ...]:
        n = len(dtypes)
        meaning = f"the {n} dtypes of what it reduces" if n > 1 else "the dtype of what it reduces"
        self._check_parameters("identity", self.fidentity, dtypes, meaning)
        values = self.fidentity(*dtypes)
        parts = self._components("identity", values, len(dtypes), many)
        return tuple([self._start(v, d) for v, d in zip(parts, dtypes, strict=True)])

    def _components(self, what: str, values: object, count: int, many: bool) -> tuple[Any, ...]:
        if not many:
            if isinstance(values, (tuple, list)):
                raise CombinerError(
                    f"the {what} of {self.name} is a tuple, but one expression is reduced.",
                    hint=f"reduce a tuple, {self.name}((a, b), axis=k), or return one value.",
                )
            return (values,)
        if not isinstance(values, (tuple, list)) or len(values) != count:
            given = (
                counted(len(values), "value") if isinstance(values, (tuple, list)) else "no tuple"
            )
            raise CombinerError(
                f"the {what} of {self.name} gives {given}, but {counted(count, 'expression')} "
                f"{'is' if count == 1 else 'are'} reduced.",
                hint="return a tuple with one value for each reduced expression.",
            )
        return tuple(values)

    def _start(self, value: object, dtype: DType) -> Const:
        """An identity as a constant of the source's dtype."""
        if isinstance(value, Const):
            if value.dtype is dtype:
                return value
            given = f"{value} of dtype {value.dtype}"
        elif isinstance(value, (bool, np.bool_)):
            if dtype is BOOL:
                return const(bool(value), BOOL)
            given = repr(value)
        elif isinstance(value, (int, np.integer)):
            if dtype.is_float or (dtype.is_integer and dtype.lowest <= value <= dtype.highest):
                return const(int(value), dtype)
            given = str(value)
        elif isinstance(value, (float, np.floating)) and dtype.is_float:
            return const(float(value), dtype)
        else:
            given = value.name if isinstance(value, Tensor) else str(value)
        raise CombinerError(
            f"the identity {given} of {self.name} is no constant of the source's dtype {dtype}.",
            hint="return numbers, built from the dtypes the function is given.",
        )

    def _combine(self, x: tuple[Param, ...], y: tuple[Param, ...], many: bool) -> tuple[Expr, ...]:
        with in_formula():
            values = self.fcombine(x, y) if many else self.fcombine(x[0], y[0])
        parts = self._components("combiner", values, len(x), many)
        own: dict[Expr, None] = dict.fromkeys((*x, *y))
        return tuple([self._result(v, p, own) for v, p in zip(parts, x, strict=True)])

    def _result(self, value: object, state: Param, own: dict[Expr, None]) -> Expr:
        e = element(f"the combiner of {self.name}", value, state.dtype, CombinerError)
        foreign = foreign_leaf(e, own)
        if foreign is not None:
            raise CombinerError(
                f"the combiner of {self.name} uses {foreign}, which is none of its operands.",
                where=excerpt(e),
                hint="a combiner sees only its operands; pass more values as a tuple.",
            )
        if e.dtype is not state.dtype:
            raise CombinerError(
                f"the combiner of {self.name} gives {e.dtype} for operand {state.name} "
                f"of dtype {state.dtype}.",
                where=excerpt(e),
                hint=f"convert the result: .astype({str(state.dtype)!r}).",
            )
        return e


def comm_reducer(
    fcombine: Callable[..., Any],
    fidentity: Callable[..., Any],
    name: str = "reducer",
    associative: bool = False,
) -> Reducer:
    """A reducer that folds elements from the left, in lexicographic order of the axes.

    Args:
        fcombine: (state, element) -> state; tuples in and out when tuples are reduced.
        fidentity: the dtypes of the sources -> the number (or tuple) the fold starts from.
        name: how texts and errors call it.
        associative: a promise that the order of combining does not matter.
    """
    for what, function in (("combiner", fcombine), ("identity", fidentity)):
        if not callable(function):
            raise CombinerError(
                f"the {what} of a reducer must be a function, got {function!r}.",
                hint="comm_reducer(lambda x, y: x + y, lambda dtype: 0, name='add').",
            )
    return Reducer(check_name(name), fcombine, fidentity, bool(associative))


def _join_exps(x: tuple[Expr, Expr], y: tuple[Expr, Expr]) -> tuple[Expr, Expr]:
    """(largest, sum of exp(e - largest)) of two halves; without operands (-inf, 0).

    Only the half that is not the largest is scaled, so that one exponential is taken.
    """
    (a, s), (b, t) = x, y
    top = call("maximum", a, b)
    scale = call("exp", call("minimum", a, b) - top)
    one = const(1, top.dtype)
    scaled = [v * select(call("eq", m, top), one, scale) for m, v in ((a, s), (b, t))]
    return top, scaled[0] + scaled[1]


_EXPS: Final = Reducer("logsumexp", _join_exps, lambda *_: (-math.inf, 0.0), associative=True)


def logsumexp(expr: Element, axis: Axes, where: Element | None = None) -> Expr:
    """log(sum(exp(expr))) in one pass without overflow; -inf where there is nothing to sum.

    Source: Milakov and Gimelshein, Online normalizer calculation for softmax (2018), section 3.

    Raises:
        DTypeError: the operand is no float.
    """
    source = element("the operand of logsumexp", expr)
    if not source.dtype.is_float:
        raise DTypeError(
            f"the operand of logsumexp must be a float, got {source.dtype}.",
            where=excerpt(source),
            hint="convert it: .astype('float32').",
        )
    top, total = _EXPS((source, const(1, source.dtype)), axis, where)
    return select(call("eq", total, const(0, total.dtype)), top, top + call("log", total))


_BY_FUNCTION: Final = {sum: "sum", prod: "prod", max: "max", min: "min"}


def builtin_name(reducer: object) -> str | None:
    """The name of a built-in reducer given as a string or as the function itself."""
    if isinstance(reducer, str):
        return reducer if reducer in BY_NAME else None
    return next((n for f, n in _BY_FUNCTION.items() if f is reducer), None)


def counts(reducer: object, dtype: DType) -> bool:
    """Whether the reducer takes booleans as numbers: a sum or product of them."""
    return dtype is BOOL and builtin_name(reducer) in ("sum", "prod")


def combiner_of(what: str, reducer: object, dtypes: tuple[DType, ...], many: bool) -> Combiner:
    """The combiner a scan or scatter names: "sum", `sum` or a reducer of comm_reducer.

    Raises:
        CombinerError: it is none of these, or has another arity.
    """
    if isinstance(reducer, Reducer):
        return reducer.combiner(dtypes, many)
    name = builtin_name(reducer)
    if name is None:
        given = getattr(reducer, "__name__", repr(reducer))
        raise CombinerError(
            f"{what} cannot combine with {given}.",
            hint='use "sum", "prod", "max", "min" or a reducer made by comm_reducer.',
        )
    if len(dtypes) != 1:
        raise CombinerError(
            f"{what} combines tuples of {len(dtypes)}, but {name} folds one value.",
            hint="make a reducer of tuples with comm_reducer.",
        )
    return BY_NAME[name](dtypes[0])
