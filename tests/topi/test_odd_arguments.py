"""Every operator takes an odd argument or refuses it in the library's own words, and soon."""

from __future__ import annotations

import inspect
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pytest

from tensorad import te, topi
from tensorad.errors import UserError
from tensorad.ir.tensor import Tensor
from tensorad.ir.text.printer import format_tensor_recursively
from tests.support.topi_calls import CALLS, V, X

ONE_ELEMENT: Final = te.placeholder((1,), name="O")
SECONDS: Final = 5
"""Far more than any of the calls takes; one that counts to a huge number does not end."""

ODD: Final[dict[str, Callable[[], Any]]] = {
    "None": lambda: None,
    "True": lambda: True,
    "a NumPy bool": lambda: np.True_,
    "a word": lambda: "none",
    "no text": lambda: "",
    "bytes": lambda: b"avg",
    "0": lambda: 0,
    "1": lambda: 1,
    "-1": lambda: -1,
    "-7": lambda: -7,
    "1000": lambda: 1000,
    "10**30": lambda: 10**30,
    "1.5": lambda: 1.5,
    "NaN": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "1j": lambda: 1j,
    "a fraction": lambda: Fraction(1, 2),
    "int64": lambda: np.int64(1),
    "int8": lambda: np.int8(-1),
    "uint8": lambda: np.uint8(2),
    "a NumPy float": lambda: np.float64(1.5),
    "an array of no axis": lambda: np.array(1),
    "an array of integers": lambda: np.array([1, 0]),
    "an array of floats": lambda: np.ones((4, 4)),
    "an array of texts": lambda: np.array(["a", "b"]),
    "()": lambda: (),
    "[]": list,
    "[1]": lambda: [1],
    "(0, 1)": lambda: (0, 1),
    "(1, 1)": lambda: (1, 1),
    "(2, 2, 2)": lambda: (2, 2, 2),
    "(1.5, 2)": lambda: (1.5, 2),
    "(10**30, 1)": lambda: (10**30, 1),
    "(-1, -1)": lambda: (-1, -1),
    "(int64, int64)": lambda: (np.int64(1), np.int64(0)),
    "texts": lambda: ("a", "b"),
    "[None]": lambda: [None],
    "nested": lambda: ((1,), (0,)),
    "seven ones": lambda: (1,) * 7,
    "a dict": dict,
    "a set": lambda: {1},
    "a range": lambda: range(2),
    "a generator": lambda: (n for n in (0, 1)),
    "a slice": lambda: slice(0, 1),
    "an ellipsis": lambda: ...,
    "an object": object,
    "a type": lambda: int,
    "a function": lambda: lambda x: x,
    "a size": lambda: te.size("n"),
    "an axis": lambda: te.reduce_axis(4, name="r"),
    "a float expression": lambda: te.const(1.5),
    "a tensor of no axis": lambda: te.placeholder((), name="S"),
    "a vector": lambda: te.placeholder((3,), name="W"),
    "a vector of integers": lambda: te.placeholder((4,), "uint8", name="K"),
    "a matrix of bools": lambda: te.placeholder((4, 4), "bool", name="B"),
    "an empty matrix": lambda: te.placeholder((0, 4), name="E"),
    "a symbolic matrix": lambda: te.placeholder((te.size("n"), 4), name="A"),
    "a list of tensors": lambda: [te.placeholder((4, 4), name="P"), te.placeholder((3,), name="Q")],
}

FUNCTIONS: Final = {("einsum", "reduce")}
"""Parameters that are called: what the caller's function raises is the caller's."""


class TooLong(Exception):
    """A call took more than `SECONDS`."""


@contextmanager
def limited() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def call(name: str, arguments: dict[str, Any]) -> Any:
    function = getattr(topi, name)
    lists = [
        n for n, p in inspect.signature(function).parameters.items() if p.kind is p.VAR_POSITIONAL
    ]
    if not lists:
        return function(**arguments)
    named = {n: v for n, v in arguments.items() if n not in ("subscripts", *lists)}
    first = [arguments["subscripts"]] if "subscripts" in arguments else []
    return function(*first, arguments[lists[0]], **named)


def is_result(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return all(isinstance(v, Tensor) for v in value)
    return isinstance(value, Tensor)


def test_every_parameter_of_every_operator_is_called() -> None:
    assert set(CALLS) == {*topi.__all__, *topi.nn.__all__} - {"nn"}
    for name, arguments in CALLS.items():
        assert set(arguments) == set(inspect.signature(getattr(topi, name)).parameters), name
        assert is_result(call(name, arguments)), name


def numpy_integers(value: Any) -> Any:
    """The integers of a value as NumPy's."""
    if isinstance(value, tuple):
        return tuple([numpy_integers(v) for v in value])
    return np.int64(value) if isinstance(value, int) and not isinstance(value, bool) else value


def test_integers_of_numpy_are_integers() -> None:
    for name, arguments in CALLS.items():
        given = {n: numpy_integers(v) for n, v in arguments.items()}
        texts = [
            [format_tensor_recursively(t) for t in (r if isinstance(r, (list, tuple)) else [r])]
            for r in (call(name, arguments), call(name, given))
        ]
        assert texts[0] == texts[1], name


SAME: Final[dict[str, tuple[Callable[[], Tensor], Callable[[], Tensor]]]] = {
    "reshape to an integer": (lambda: topi.reshape(X, 16), lambda: topi.reshape(X, (16,))),
    "reshape to -1": (lambda: topi.reshape(X, -1), lambda: topi.reshape(X, (16,))),
    "full of an integer": (lambda: topi.full(3, 1.0), lambda: topi.full((3,), 1.0)),
    "broadcast to an integer": (
        lambda: topi.broadcast_to(ONE_ELEMENT, 4),
        lambda: topi.broadcast_to(ONE_ELEMENT, (4,)),
    ),
    "one axis to transpose": (lambda: topi.transpose(V, 0), lambda: topi.transpose(V, (0,))),
    "one axis to slice": (
        lambda: topi.strided_slice(X, 1, 3),
        lambda: topi.strided_slice(X, (1,), (3,)),
    ),
    "axes to pair": (
        lambda: topi.tensordot(X, X, (1, 0)),
        lambda: topi.tensordot(X, X, ([1], [0])),
    ),
    "axes of an array": (
        lambda: topi.sum(X, np.array([0, 1])),
        lambda: topi.sum(X, (0, 1)),
    ),
    "gelu, none": (lambda: topi.gelu(X, "none"), lambda: topi.gelu(X)),
    "gelu, tanh": (lambda: topi.gelu(X, "tanh"), lambda: topi.gelu(X, True)),
    "steps without a start": (lambda: topi.arange(9, step=2), lambda: topi.arange(0, 9, 2)),
}


@pytest.mark.parametrize("name", SAME)
def test_two_ways_to_say_the_same(name: str) -> None:
    one, other = [format_tensor_recursively(make()) for make in SAME[name]]
    assert one == other


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", CALLS)
def test_odd_arguments_work_or_are_refused(name: str) -> None:
    foreign = []
    for parameter in CALLS[name]:
        for what, make in ODD.items():
            try:
                with limited():
                    result = call(name, {**CALLS[name], parameter: make()})
            except UserError:
                continue
            except Exception as e:  # noqa: BLE001  # whatever is foreign is reported
                if (name, parameter) not in FUNCTIONS:
                    foreign.append(f"{name}({parameter}={what}): {type(e).__name__}: {e}"[:200])
                continue
            if not is_result(result):
                foreign.append(f"{name}({parameter}={what}) gives {result!r}"[:200])
    assert foreign == [], "\n".join(foreign)
