"""Arithmetic, comparisons and elementary functions, element by element."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce as fold
from math import erf
from typing import Any, Final

import numpy as np

from tensorad import te, topi
from tensorad.errors import OnnxError
from tensorad.interop.onnx.calls import Call
from tensorad.interop.onnx.operators.folding import (
    Handler,
    elementwise,
    equal_arrays,
    folded,
    larger,
    less_arrays,
    less_equal_arrays,
    smaller,
    truncated_quotient,
    truncated_remainder,
)
from tensorad.interop.onnx.values import Array, Value, count_of
from tensorad.ir.dtypes import BOOL
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Tensor
from tensorad.topi.definition import define


def divide(call: Call) -> Value:
    """Quotients; of integers towards 0."""
    if call.dtype(0).is_float:
        known = folded(call, np.divide)
        return topi.divide(call.tensor(0), call.tensor(1)) if known is None else known
    known = folded(call, truncated_quotient)
    if known is not None:
        return known
    return quotient(call.tensor(0), call.tensor(1))


def quotient(a: Tensor, b: Tensor) -> Tensor:
    """a / b of integers, towards 0."""
    down = topi.floor_divide(a, b)
    if a.dtype.kind == "uint":
        return down
    up = topi.logical_and(topi.less(down, 0), topi.not_equal(topi.multiply(down, b), a))
    return topi.where(up, down + 1, down)


def remainder(call: Call) -> Value:
    """What division leaves, of the divisor's sign, or with fmod of the dividend's."""
    if call.flag("fmod", False):
        known = folded(call, truncated_remainder)
        return topi.fmod(call.tensor(0), call.tensor(1)) if known is None else known
    known = folded(call, np.mod)
    if known is not None:
        return known
    a, b = call.tensor(0), call.tensor(1)
    if not a.dtype.is_float:
        return topi.mod(a, b)
    rest = topi.fmod(a, b)
    other_sign = topi.logical_xor(topi.less(rest, 0), topi.less(b, 0))
    moved = topi.logical_and(topi.not_equal(rest, 0), other_sign)
    return topi.where(moved, topi.add(rest, b), rest)


def power(call: Call) -> Value:
    """Powers, of the dtype of the base."""
    dtype = call.dtype(0)
    known = folded(call, np.power)
    if known is not None:
        return known
    exponent: Any = call.setting(1)
    if exponent is not None and call.shape(1) and len(call.shape(1)) > len(call.shape(0)):
        exponent = None
    made = topi.power(call.tensor(0), call.tensor(1) if exponent is None else exponent)
    return made.astype(dtype)


def _reduced(on_arrays: Callable[[Any, Any], Any], on_tensors: Callable[..., Tensor]) -> Handler:
    """An operator of any number of inputs."""
    one_by_one = np.frompyfunc(on_arrays, 2, 1)

    def handler(call: Call) -> Value:
        if not call.values:
            raise OnnxError("it needs an input.")
        known = folded(call, lambda *arrays: fold(one_by_one, arrays))
        return fold(on_tensors, call.tensors()) if known is None else known

    return handler


def mean(call: Call) -> Value:
    """The mean of all inputs."""
    return fold(topi.add, call.tensors()) * (1.0 / len(call.values))


def clip(call: Call) -> Value:
    """x between two bounds, either of which may be left out."""
    made = call.tensor(0)
    for n, bound in ((1, topi.maximum), (2, topi.minimum)):
        if call.has(n):
            if count_of(call.shape(n)) != 1:
                raise OnnxError(f"its input {n} must be one element.")
            number = call.setting(n)
            limit = call.tensor(n) if number is None else number
            made = bound(limit, made)
    return made


def is_infinite(call: Call) -> Value:
    """Whether elements are infinite, of the signs asked for."""
    x = call.tensor(0)
    signs = [
        s for s, name in ((1, "detect_positive"), (-1, "detect_negative")) if call.flag(name, True)
    ]

    def body(*i: Expr) -> Expr:
        found = [x[i] == s * np.inf for s in signs]
        none: Expr = te.const(False, BOOL)
        return te.any_of(*found) if found else none

    return define(x.shape, body, "isinf")


def where(call: Call) -> Value:
    """The second input where the first holds, otherwise the third."""
    known = folded(call, np.where, call.dtype(1))
    if known is not None:
        return known
    return topi.where(call.tensor(0), call.tensor(1), call.tensor(2))


def identity(call: Call) -> Value:
    """Its input."""
    return call.value(0)


def dropout(call: Call) -> list[Value]:
    """Its input: nothing is dropped when a model is used."""
    if call.has(2) and bool(call.numbers(2).any()):
        ratio = call.numbers(1) if call.has(1) else np.array(0.5)
        if ratio.size != 1 or ratio.item() != 0:
            raise OnnxError(
                "elements are dropped at random in training mode.",
                hint="export the model for inference.",
            )
    x = call.value(0)
    return [x, topi.full(x.shape, True, BOOL)][: max(1, call.outputs)]


def _of_integers(on_arrays: Callable[..., Any], on_tensors: Callable[..., Tensor]) -> Handler:
    """A function that leaves integers as they are."""

    def handler(call: Call) -> Value:
        if not call.dtype(0).is_float:
            return call.value(0)
        known = folded(call, on_arrays)
        return on_tensors(call.tensor(0)) if known is None else known

    return handler


def _erf(x: Array) -> Array:
    return np.asarray(np.vectorize(erf, otypes=[float])(x))


HANDLERS: Final[Mapping[str, Handler]] = {
    "Add": elementwise(np.add, topi.add),
    "Sub": elementwise(np.subtract, topi.subtract),
    "Mul": elementwise(np.multiply, topi.multiply),
    "Div": divide,
    "Mod": remainder,
    "Pow": power,
    "Neg": elementwise(np.negative, topi.negative),
    "Abs": elementwise(np.abs, topi.abs),
    "Sign": elementwise(np.sign, topi.sign),
    "Sqrt": elementwise(np.sqrt, topi.sqrt),
    "Exp": elementwise(np.exp, topi.exp),
    "Log": elementwise(np.log, topi.log),
    "Reciprocal": elementwise(np.reciprocal, lambda x: 1.0 / x),
    "Floor": _of_integers(np.floor, topi.floor),
    "Ceil": _of_integers(np.ceil, topi.ceil),
    "Round": _of_integers(np.round, topi.round),
    "Sin": elementwise(np.sin, topi.sin),
    "Cos": elementwise(np.cos, topi.cos),
    "Tan": elementwise(np.tan, topi.tan),
    "Asin": elementwise(np.arcsin, topi.asin),
    "Acos": elementwise(np.arccos, topi.acos),
    "Atan": elementwise(np.arctan, topi.atan),
    "Sinh": elementwise(np.sinh, topi.sinh),
    "Cosh": elementwise(np.cosh, topi.cosh),
    "Asinh": elementwise(np.arcsinh, topi.asinh),
    "Acosh": elementwise(np.arccosh, topi.acosh),
    "Atanh": elementwise(np.arctanh, topi.atanh),
    "Tanh": elementwise(np.tanh, topi.tanh),
    "Erf": elementwise(_erf, topi.erf),
    "IsNaN": elementwise(np.isnan, topi.isnan, BOOL),
    "IsInf": is_infinite,
    "Max": _reduced(larger, topi.maximum),
    "Min": _reduced(smaller, topi.minimum),
    "Sum": _reduced(lambda a, b: a + b, topi.add),
    "Mean": mean,
    "Clip": clip,
    "Equal": elementwise(equal_arrays, topi.equal, BOOL),
    "Less": elementwise(less_arrays, topi.less, BOOL),
    "Greater": elementwise(lambda a, b: less_arrays(b, a), topi.greater, BOOL),
    "LessOrEqual": elementwise(less_equal_arrays, topi.less_equal, BOOL),
    "GreaterOrEqual": elementwise(lambda a, b: less_equal_arrays(b, a), topi.greater_equal, BOOL),
    "And": elementwise(np.logical_and, topi.logical_and),
    "Or": elementwise(np.logical_or, topi.logical_or),
    "Xor": elementwise(np.logical_xor, topi.logical_xor),
    "Not": elementwise(np.logical_not, topi.logical_not),
    "Where": where,
    "Identity": identity,
    "Dropout": dropout,
}
