"""Functions with derivatives of the user's own: `stop_gradient` and `scalar_function`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from importlib import import_module
from typing import Any, Final, overload

from tensorad.errors import DefinitionError, DTypeError, GradError
from tensorad.ir.arrays.constants import with_constants
from tensorad.ir.arrays.elementwise import broadcast_read, compute_axes, over_broadcast
from tensorad.ir.arrays.tracing import in_formula
from tensorad.ir.dtypes import FLOAT32, WEAK_FLOAT, DType, result_type
from tensorad.ir.expr import Apply, Expr, Number, Param, cast, param
from tensorad.ir.functions import Function, Partials, apply, stop
from tensorad.ir.records import is_record, same_record
from tensorad.ir.tensor import CallRule, Compute, FunctionCall, MaybeTensors, Tensor, outputs
from tensorad.ir.weak import settled
from tensorad.te.checks import check_name, element, excerpt, foreign_leaf, operand

_STOPS: Final = {"both": "stop_gradient", "reverse": "stop_reverse", "forward": "stop_forward"}
"""How formulas call `stop_gradient` in each mode."""


@overload
def stop_gradient(x: Tensor, mode: str = "both") -> Tensor: ...
@overload
def stop_gradient(x: Expr | Number, mode: str = "both") -> Expr: ...
def stop_gradient(x: Any, mode: str = "both") -> Any:
    """x itself, with derivative zero in every derivation of a mode, of every order.

    Args:
        x: an expression of a formula, a number, or a whole tensor (the result is a tensor), also
            what stands for a value of a data type in a program.
            Integers and booleans are constants of derivatives already.
        mode: "reverse" stops `vjp`, `grad` and what else is in reverse mode, and lets `jvp` and
            levels pass; "forward" the other way round; "both" stops every derivative. What a
            mode lets pass is x as if it was not stopped, in derivatives of derivatives again.
    Raises:
        DefinitionError: it is neither, or there is no such mode.
    """
    if not isinstance(mode, str) or mode not in _STOPS:
        raise DefinitionError(
            f"stop_gradient has no mode {mode!r}.",
            hint='use mode="both", "reverse" or "forward".',
        )
    name = _STOPS[mode]
    if not isinstance(x, Tensor):
        return stop(operand("the operand of stop_gradient", x), name)
    if is_record(x.dtype):
        return _stopped_value(x, name)
    if not x.dtype.is_float:
        return x
    axes = compute_axes(x.shape)
    stopped = stop(broadcast_read(x, axes), name)
    return outputs(Compute(f"{name}.{x.name}", axes, (stopped,)))[0]


def _stopped_value(x: Tensor, name: str) -> Tensor:
    """A value of a data type, or a function that data choose, whose call has a rule that stops."""

    def stopped(op: FunctionCall, given: MaybeTensors, *more: object) -> MaybeTensors:
        return [None]

    def passed(op: FunctionCall, given: MaybeTensors, *more: object) -> MaybeTensors:
        return given

    reverse, forward = [
        stopped if name in (_STOPS["both"], _STOPS[m]) else passed for m in ("reverse", "forward")
    ]
    return same_record(x, f"{name}.{x.name}", name, CallRule(reverse, forward))


@dataclass(frozen=True, eq=False)
class ScalarFunction:
    """A scalar function with partial derivatives given by the user.

    Called like `exp`: on expressions and numbers inside a formula, or elementwise on whole
    tensors, with broadcasting. Floats are brought to one dtype; integers and booleans keep
    theirs and are constants of the derivative.

    `made` keeps one function for each tuple of operand dtypes and the dtype of its numbers.
    """

    name: str
    formula: Callable[..., Any]
    derivatives: Callable[..., Any]
    made: dict[tuple[tuple[DType, ...], DType], Function] = field(default_factory=dict, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        place = (getattr(self.formula, "__module__", ""), getattr(self.formula, "__qualname__", ""))
        if getattr(sys.modules.get(place[0]), place[1], None) is self:  # made by the decorator
            return _decorated, place
        return ScalarFunction, (self.name, self.formula, self.derivatives)

    def __call__(self, *args: Any) -> Any:
        """The function's value: an expression, or a tensor if an argument is a tensor."""
        if not any(isinstance(a, Tensor) for a in args):
            return self._at(args)
        return over_broadcast(self.name, with_constants(args), self._at)

    def _at(self, args: Sequence[Any]) -> Expr:
        operands = [operand(f"an operand of {self.name}", a) for a in args]
        dtype = reduce(result_type, [e.dtype for e in operands if _is_number(e)], WEAK_FLOAT)
        operands = [cast(e, dtype) if _is_number(e) else e for e in operands]
        alone = tuple([settled(e) for e in operands])
        function = self._function(tuple([e.dtype for e in alone]), FLOAT32)
        weak = function.is_weak or any(e.dtype.is_weak for e in operands)
        if function.result.dtype is FLOAT32 and weak:
            return Apply(WEAK_FLOAT, function, tuple(operands))
        return apply(function, alone)

    def _function(self, dtypes: tuple[DType, ...], like: DType) -> Function:
        """The function of these dtypes; formulas of numbers in it are computed in the float among
        them, otherwise in `like`."""
        key = dtypes, next((d for d in dtypes if d.is_float), like)
        if key not in self.made:
            names = _parameter_names(self.name, self.formula, len(dtypes))
            params = tuple([param(n, d) for n, d in zip(names, dtypes, strict=True)])
            with in_formula():
                value = self.formula(*params)
            result = self._result(value, params, key[1])
            weak = isinstance(value, Expr) and value.dtype.is_weak
            alone = weak and not any(d.is_float for d in dtypes)
            made = Function(
                self.name, params, result, self._partials, other=self._function, is_weak=alone
            )
            self.made.setdefault(key, made)
        return self.made[key]

    def _result(self, value: object, params: tuple[Param, ...], like: DType) -> Expr:
        e = element(f"the value of {self.name}", value, like)
        _check_own(f"the formula of {self.name}", e, params)
        if not e.dtype.is_float:
            raise DTypeError(
                f"{self.name} gives {e.dtype}: only a float has derivatives.",
                where=excerpt(e),
                hint="convert the result: .astype('float32'), or use a plain Python function.",
            )
        return e

    def _partials(self, value: Param, params: tuple[Param, ...]) -> Partials:
        made = partials_given(self.name, self.derivatives, value, params)
        for n, partial in enumerate(made):
            if partial is not None:
                _check_own(f"partial {n} of {self.name}", partial, (value, *params))
        return made


def partials_given(
    name: str, derivatives: Callable[..., Any], value: Expr, args: Sequence[Expr]
) -> Partials:
    """What a user's function of derivatives says: an expression of a float for each argument.

    Raises:
        GradError: it cannot be called so, or gives something else.
    """
    if not takes(derivatives, 1 + len(args)):
        raise GradError(
            f"the partials of {name} cannot be called with the value and {_arguments(len(args))}.",
            hint="write partials=lambda y, a, b: (dy_da, dy_db): y is the function's value.",
        )
    with in_formula():
        given = derivatives(value, *args)
    many = isinstance(given, (tuple, list))
    parts = tuple(given) if many else (given,)
    if len(parts) != len(args):
        raise GradError(
            f"the partials of {name} are {len(parts)}, but it takes {_arguments(len(args))}.",
            hint="return one partial per argument, None where it is zero.",
        )
    partials = [
        _partial(f"partial {n} of {name}", p, a.dtype)
        for n, (p, a) in enumerate(zip(parts, args, strict=True))
    ]
    return tuple([None if p is None else cast(p, value.dtype) for p in partials])


def _partial(what: str, partial: object, like: DType) -> Expr | None:
    """A partial derivative by an argument of this dtype; None is zero."""
    if partial is None or not like.is_float:
        return None
    e = element(what, partial, like, GradError)
    if not e.dtype.is_float:
        raise GradError(
            f"{what} is of dtype {e.dtype}; it must be a float.",
            where=excerpt(e),
            hint="convert it: .astype('float32'); a zero partial is None.",
        )
    return e


def _decorated(module: str, name: str) -> object:
    return getattr(import_module(module), name)


def _is_number(e: Expr) -> bool:
    """Whether an operand is brought to the dtype of the others: a float, or made of numbers."""
    return e.dtype.is_float or e.dtype.is_weak


def _check_own(what: str, e: Expr, own: Sequence[Param]) -> None:
    foreign = foreign_leaf(e, dict.fromkeys(own))
    if foreign is not None:
        raise DefinitionError(
            f"{what} uses {foreign}, which is none of its arguments.",
            where=excerpt(e),
            hint="a scalar function sees only its arguments; pass other values as arguments.",
        )


def _arguments(count: int) -> str:
    return f"{count} argument" if count == 1 else f"{count} arguments"


def takes(function: object, count: int) -> bool:
    """Whether something can be called with so many arguments; of a builtin its call will tell."""
    try:
        inspect.signature(function).bind(*range(count))  # type: ignore[arg-type]  # no function: TypeError
    except TypeError:
        return False
    except ValueError:  # a builtin without a signature
        return True
    return True


def _parameter_names(name: str, formula: Callable[..., Any], count: int) -> tuple[str, ...]:
    if not takes(formula, count):
        raise DefinitionError(
            f"{name} cannot be called with {_arguments(count)}.",
            hint="give it as many arguments as its formula has parameters.",
        )
    try:
        parameters = list(inspect.signature(formula).parameters.values())
    except ValueError:  # a builtin without a signature
        parameters = []
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return (*named[:count], *[f"x{n}" for n in range(len(named), count)])


@overload
def scalar_function(
    formula: Callable[..., Any], *, partials: Callable[..., Any], name: str | None = None
) -> ScalarFunction: ...
@overload
def scalar_function(
    formula: None = None, *, partials: Callable[..., Any], name: str | None = None
) -> Callable[[Callable[..., Any]], ScalarFunction]: ...
def scalar_function(
    formula: Callable[..., Any] | None = None,
    *,
    partials: Callable[..., Any],
    name: str | None = None,
) -> ScalarFunction | Callable[[Callable[..., Any]], ScalarFunction]:
    """A scalar function whose derivative is what `partials` says, in both modes, to any order.

    As a function, `f = scalar_function(formula, partials=...)`, or as a decorator,
    `@scalar_function(partials=...)`. Compiled code contains the formula itself.

    Args:
        formula: (a, b, ...) -> an expression of its arguments alone.
        partials: (y, a, b, ...) -> one partial per argument, y the function's own value; a bare
            expression for one argument; None is zero everywhere. Partials may use functions of
            this kind, also this one: higher derivatives follow them.
        name: how texts call it; the formula's own name unless given.
    Raises:
        DefinitionError: one of them is no function.
    Example:
        logistic = ta.scalar_function(
            lambda x: 1 / (1 + ta.exp(-x)), partials=lambda y, x: y * (1 - y), name="logistic")
    """
    for what, function in (("partials", partials), ("formula", formula)):
        if function is not None and not callable(function):
            raise DefinitionError(
                f"the {what} of a scalar function must be a function, got {function!r}.",
                hint="scalar_function(lambda x: x * x, partials=lambda y, x: 2 * x).",
            )
    if formula is None:
        return lambda f: scalar_function(f, partials=partials, name=name)
    own = getattr(formula, "__name__", "function") if name is None else name
    return ScalarFunction("function" if own == "<lambda>" else check_name(own), formula, partials)
