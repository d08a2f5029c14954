"""The reference semantics: every term by itself, in plain Python over NumPy and float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tensorad import topi
from tensorad.autodiff import jvp
from tensorad.errors import DTypeError, GradError, LimitError, ShapeError
from tensorad.ir.arrays.tracing import tracing
from tensorad.ir.dtypes import FLOAT32, FLOAT64, DType, to_dtype
from tensorad.ir.reference.interpret import interpret as interpret_tensors
from tensorad.ir.tensor import Placeholder, Shape, Tensor, outputs
from tensorad.language.formulas import tensors_of
from tensorad.language.machine import Machine, one_or_all
from tensorad.language.operators import applied, arrays_made, folded, number_tensor
from tensorad.language.residual.first_order import check_first_order, check_no_function
from tensorad.language.terms import Binding, Formula, If, Loop, Name, Operator, Program
from tensorad.language.types import TensorText, dtype_named
from tensorad.language.values import Derived, Effects, Env, Value, leaves, mapped
from tensorad.process import deep_calls
from tensorad.program.values import alone, dtype_of, is_number

MOST_STEPS = 10_000_000
"""Iterations of all loops of a run."""


@dataclass(frozen=True, eq=False)
class Array:
    """Elements, in float64 if they are floats, and the dtype that the program has for them."""

    values: np.ndarray[Any, Any]
    dtype: DType


@dataclass(frozen=True, eq=False)
class Dual:
    """A float with tangents, along a leading axis, at a level: within one derivative."""

    primal: Any
    tangents: Any
    level: int


class Interpreted(NamedTuple):
    """What a run results in, and what it did to references."""

    result: Any
    effects: Effects


def interpret(program: Program, name: str, *args: Any) -> Interpreted:
    """The result of a function on arrays, numbers and tuples of them.

    Args:
        program: see `parse`.
        name: of the function.
        args: arrays; tagged values as `Tagged`.
    Returns:
        a tree of NumPy arrays in float64, int64 and bool, and counts of effects.
    Raises:
        UserError: a term is applied to what it does not take; the error has its line.
        DefinitionError: an argument is a function, or the result has one or a reference in it.
        LimitError: loops run more than 10,000,000 times.
    """
    run = _Interpreter(program)
    with deep_calls.changed():
        made = run.apply(run.function(name), tuple([_given(a) for a in args]))
    check_first_order(name, made)
    return Interpreted(mapped(made, lambda v: _elements(run.live(v))), run.effects)


def _given(value: Any) -> Value:
    return mapped(value, lambda v: v if is_number(v) or isinstance(v, bool) else _array(v))


def _array(value: Any) -> Array:
    check_no_function(value)
    found = np.asarray(value)
    dtype = to_dtype(found.dtype)
    return Array(found.astype(np.float64) if dtype.is_float else found, dtype)


def _elements(value: Any) -> Any:
    return value.values if isinstance(value, Array) else value


def _is_constant(v: Any) -> bool:
    return is_number(v) or isinstance(v, bool)


class _Interpreter(Machine[Any]):
    """Values are numbers, `Array`, and `Dual` within derivatives."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.levels: list[int] = []
        self.opened = 0
        self.steps = 0

    def live(self, value: Any) -> Any:
        """The value without tangents of derivatives that are over."""
        while isinstance(value, Dual) and value.level not in self.levels:
            value = value.primal
        return value

    def type_of(self, value: Any) -> tuple[DType, Shape]:
        """Dtype and shape of a number or array."""
        while isinstance(value, Dual):
            value = value.primal
        if isinstance(value, Array):
            return value.dtype, value.values.shape
        return alone(dtype_of(value)), ()

    def as_declared(self, t: TensorText, value: Value, meanings: dict[str, Any]) -> Any:
        """Numbers stay numbers where they have the dtype alone."""
        if not is_number(value):
            return value
        wanted = dtype_named(t.dtype, meanings)
        own = alone(dtype_of(value))
        if wanted is None or wanted is own or (own.is_float and not wanted.is_float):
            return value
        return Array(np.asarray(value, np.float64 if wanted.is_float else np.int64), wanted)

    def formula(self, term: Formula, env: Env, b: Binding) -> tuple[Value, ...]:
        """The tensors of a formula."""
        given = {n: self.leaf(self.atom(Name(n), env), "a formula") for n in term.reads}
        names = list(given)

        def make(some: Sequence[Any]) -> tuple[Tensor, ...]:
            named = zip(names, some, strict=True)
            tensors = {n: v if isinstance(v, Tensor) else number_tensor(v) for n, v in named}
            return tensors_of(term, tensors, env.meanings, b.line)

        made = self.primitive(make, list(given.values()))
        return made if isinstance(made, tuple) else (made,)

    def operator(self, term: Operator, args: Sequence[Any], b: Binding) -> Value:
        """What an operator makes."""
        options = dict(term.options)
        if all(map(_is_constant, args)):
            number = folded(term.name, args)
            if number is not None:
                return number
        return self.primitive(lambda some: applied(term.name, some, options), args)

    def primitive(self, make: Callable[[Sequence[Any]], Any], args: Sequence[Any]) -> Value:
        """Tensors that are made of tensors, at the elements of these arguments."""
        given = [self.live(v) for v in args]
        level = max([v.level for v in given if isinstance(v, Dual)], default=0)
        if level:
            return self.with_tangents(make, given, level)
        params = [v if _is_constant(v) else placeholder_of(v) for v in given]
        made = arrays_made(make, params)
        tensors = made if isinstance(made, tuple) else (made,)
        known = {p: v.values for p, v in zip(params, given, strict=True) if isinstance(p, Tensor)}
        found = interpret_tensors(list(tensors), known) if tensors else []
        pairs = zip(found, tensors, strict=True)
        values = tuple([Array(array, t.dtype) for array, t in pairs])
        return values if isinstance(made, tuple) else values[0]

    def with_tangents(
        self, make: Callable[[Sequence[Any]], Any], given: Sequence[Any], level: int
    ) -> Value:
        """The same, and the tangents of one level by the derivative of the formula."""
        moving = [n for n, v in enumerate(given) if isinstance(v, Dual) and v.level == level]
        primals = [v.primal if n in moving else v for n, v in enumerate(given)]
        tangents = [given[n].tangents for n in moving]
        shape: dict[str, Any] = {}

        def both(some: Sequence[Any]) -> tuple[Tensor, ...]:
            own, along = list(some[: len(given)]), some[len(given) :]
            made = make(own)
            ys = made if isinstance(made, tuple) else (made,)
            shape.update(one=not isinstance(made, tuple), count=len(ys))
            floats = [y for y in ys if y.dtype.is_float]
            directions = dict(zip([own[n] for n in moving], along, strict=True))
            return (*ys, *(jvp(floats, directions) if floats else ()))

        found = self.primitive(both, [*primals, *tangents])
        count = shape["count"]
        rest = iter(found[count:])
        ys = [
            Dual(y, next(rest), level) if self.type_of(y)[0].is_float else y for y in found[:count]
        ]
        return ys[0] if shape["one"] else tuple(ys)

    def truth(self, value: Any, title: str) -> bool:
        """A condition.

        Raises:
            DTypeError: it is no bool without axes.
        """
        dtype, axes = self.type_of(value)
        if axes or str(dtype) != "bool":
            raise DTypeError(
                f"{title} takes a bool[], got {self.shown(value)}.",
                hint="compare, x > 0.0.",
            )
        return bool(_elements(value))

    def branch(self, condition: Any, term: If, env: Env, b: Binding) -> Value:
        """One block runs."""
        chosen = term.then if self.truth(condition, "if") else term.orelse
        return self.block(chosen, Env(env, {}))

    def loop(self, term: Loop, env: Env, b: Binding) -> Value:
        """Iterations one after the other."""
        carried = self.atoms([a for _, a in term.carries], env)
        names = [n for n, _ in term.carries]
        n = 0
        trips = None
        if term.trips is not None:
            trips = int(_elements(self.live(self.atom(term.trips, env))))
        while True:
            own = Env(env, dict(zip(names, carried, strict=True)))
            if trips is not None:
                if n >= trips:
                    break
                own.values[str(term.counter)] = n
            elif term.test is not None:
                own_test = Env(env, dict(own.values))
                if not self.truth(self.live(self.block(term.test, own_test)), "while"):
                    break
            made = self.block(term.body, own)
            carried = (made,) if len(names) == 1 else made
            n += 1
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise LimitError(
                    f"the interpreter ran {MOST_STEPS:,} iterations.",
                    hint="compiled programs have no limit: ta.partial_eval, then call the result.",
                )
        return one_or_all(carried)

    def derivative(self, f: Derived, args: tuple[Value, ...]) -> Value:
        """Forward mode along all elements at once."""
        if f.kind == "jvp":
            return self.pushed(f, args)
        floats = [self.as_float(v) for v in leaves(args) if self.is_float(v)]
        sizes = [_elements_of(self.type_of(v)[1]) for v in floats]
        total = sum(sizes)
        rows = iter(np.split(np.eye(total), np.cumsum(sizes)[:-1], axis=1) if floats else ())

        def seeded(v: Any) -> Any:
            if not self.is_float(v):
                return v
            own = self.as_float(v)
            dtype, shape = self.type_of(own)
            return Dual(own, Array(next(rows).reshape(total, *shape), dtype), level)

        self.opened += 1
        level = self.opened
        self.levels.append(level)
        y = self.apply(f.of, tuple([mapped(a, seeded) for a in args]))
        if isinstance(y, tuple) or self.type_of(self.leaf(y, f.kind))[1]:
            raise ShapeError(
                f"{f.kind} takes a function whose result is one float without axes, got "
                f"{self.shown(y)}.",
                hint="sum it, sum(y).",
            )
        y = self.live(y)
        self.levels.pop()
        is_moved = isinstance(y, Dual) and y.level == level
        along = y.tangents if is_moved else Array(np.zeros(total), FLOAT64)
        at = iter(np.cumsum([0, *sizes]).tolist())

        def adjoint(v: Any) -> Any:
            if not self.is_float(v):
                return ()
            dtype, shape = self.type_of(self.as_float(v))
            start, count = next(at), _elements_of(shape)
            return self.primitive(lambda t: _part(t[0], start, count, shape, dtype), [along])

        found = tuple([mapped(a, adjoint, ()) for a in args])
        gradient = one_or_all(found)
        return gradient if f.kind == "grad" else (self.live(y), gradient)

    def pushed(self, f: Derived, args: tuple[Value, ...]) -> Value:
        """jvp(f)(x, dx): the value, and the tangent."""
        if len(args) % 2:
            raise GradError(
                "the function that jvp makes takes a tangent for each argument.",
                hint="write jvp(f)(x, dx).",
            )
        half = len(args) // 2
        self.opened += 1
        level = self.opened
        self.levels.append(level)
        moved = [self.moved(a, d, level) for a, d in zip(args[:half], args[half:], strict=True)]
        y = self.apply(f.of, tuple(moved))
        y = mapped(y, self.live)
        self.levels.pop()

        def tangent(v: Any) -> Any:
            if not self.is_float(v):
                return ()
            dtype, shape = self.type_of(v)
            if not (isinstance(v, Dual) and v.level == level):
                return Array(np.zeros(shape), dtype)
            return self.primitive(lambda t: topi.reshape(t[0], shape), [v.tangents])

        return mapped(y, self.live), mapped(y, tangent, ())

    def moved(self, value: Value, tangent: Value, level: int) -> Value:
        """A value with its tangent."""
        own, given = leaves(value), leaves(tangent)
        if len(given) == len(own):  # what is said of integers is nothing
            given = [d for v, d in zip(own, given, strict=True) if self.is_float(v)]
        rest = iter(given)

        def dual(v: Any) -> Any:
            if not self.is_float(v):
                return v
            shape = self.type_of(v)[1]
            given = self.as_float(next(rest))
            row = self.primitive(lambda t: topi.reshape(t[0], (1, *shape)), [given])
            return Dual(self.as_float(v), row, level)

        return mapped(value, dual)

    def is_float(self, v: Any) -> bool:
        """Whether derivatives flow to a value."""
        return self.type_of(v)[0].is_float

    def as_float(self, v: Any) -> Any:
        """A number as an array."""
        return Array(np.asarray(v, np.float64), FLOAT32) if is_number(v) else v


def _elements_of(shape: Shape) -> int:
    return math.prod([n for n in shape if isinstance(n, int)])


def _part(t: Tensor, start: int, count: int, shape: Shape, dtype: DType) -> Any:
    with tracing():
        part: Any = t[start : start + count]
    return topi.cast(topi.reshape(part, shape), str(dtype))


def placeholder_of(v: Array) -> Tensor:
    """A parameter of the array's type."""
    return outputs(Placeholder("x", v.values.shape, v.dtype))[0]
