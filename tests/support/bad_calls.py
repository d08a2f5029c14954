"""Calls and builds that must fail: what each is called, and the act itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensorad import te
from tensorad.building import build, evaluate, lower, measure_performance
from tensorad.config import override

X = te.placeholder((3, 4), name="X")
V = te.placeholder((4,), name="V")
K = te.placeholder((4,), dtype="int32", name="K")
S = te.placeholder((), name="S")
N, M = te.size("n"), te.size("m")
A = te.placeholder((N, M), name="A")
B = te.placeholder((N,), name="B")
P = te.placeholder((N * M,), name="P")
R = te.placeholder((N, 5), name="R")
Y = te.compute((3, 4), lambda i, j: X[i, j] * 2.0, name="Y")
Z = te.compute((3, 4), lambda i, j: X[i, j] + V[j], name="Z")
G = te.compute((4,), lambda i: V[K[i]], name="G")
L = te.compute((4,), lambda i: K[i] + 1, name="L")
T = te.compute((), lambda: S[()] * 2.0, name="T")
C = te.compute((N, M), lambda i, j: A[i, j] + B[i], name="C")
D = te.compute((N, M), lambda i, j: P[i * M + j], name="D")
E = te.compute((N,), lambda i: i * 2, name="E")
F = te.compute((N, 5), lambda i, j: R[i, j] + 1.0, name="F")

x, v = np.ones((3, 4), np.float32), np.ones(4, np.float32)
k = np.arange(4, dtype=np.int32)
big = np.zeros(40, np.float32)


def read_only() -> np.ndarray:
    a = np.empty((3, 4), np.float32)
    a.flags.writeable = False
    return a


def limited(act: Callable[[], Any]) -> Any:
    with override(max_bytes=30):
        return act()


def twice() -> Any:
    a = np.empty((3, 4), np.float32)
    return build([Y, Z], [X, V])(x, v, out=[a, a])


BAD: dict[str, Callable[[], Any]] = {
    "too few arguments": lambda: build(Z, [X, V])(x),
    "too many arguments": lambda: build(Y, [X])(x, v),
    "wrong shape": lambda: build(Y, [X])(np.ones((4, 3), np.float32)),
    "wrong rank": lambda: build(Y, [X])(v),
    "float64 into float32": lambda: build(Y, [X])(np.ones((3, 4))),
    "complex": lambda: build(Y, [X])(np.ones((3, 4), np.complex64)),
    "float into int": lambda: build(L, [K])(v),
    "wide int into int": lambda: build(L, [K])(np.arange(4)),
    "list of floats into int": lambda: build(L, [K])([0.5, 1, 2, 3]),
    "list of huge ints into int": lambda: build(L, [K])([1 << 40, 1, 2, 3]),
    "strings": lambda: build(Y, [X])(np.full((3, 4), "a")),
    "objects": lambda: build(Y, [X])(np.full((3, 4), None)),
    "None": lambda: build(Y, [X])(None),
    "ragged list": lambda: build(Y, [X])([[1.0], [1.0, 2.0]]),
    "a tensor": lambda: build(Y, [X])(X),
    "masked array": lambda: build(Y, [X])(np.ma.masked_array(x, x > 0)),
    "unknown keyword": lambda: build(Y, [X])(x, n=3),
    "missing size": lambda: build(E, [])(),
    "negative size": lambda: build(E, [])(n=-1),
    "float size": lambda: build(E, [])(n=2.0),
    "sizes disagree": lambda: build(C, [A, B])(np.ones((3, 4), np.float32), v),
    "keyword disagrees": lambda: build(C, [A, B])(x, np.ones(3, np.float32), n=4),
    "fixed extent beside a size": lambda: build(F, [R])(x),
    "product disagrees": lambda: build(D, [P])(np.ones(7, np.float32), n=2, m=3),
    "index out of range": lambda: build(G, [V, K])(v, k + 1),
    "negative index": lambda: build(G, [V, K])(v, k - 1),
    "out is no array": lambda: build(Y, [X])(x, out=3),
    "out has another shape": lambda: build(Y, [X])(x, out=np.empty((4, 3), np.float32)),
    "out has another dtype": lambda: build(Y, [X])(x, out=np.empty((3, 4))),
    "out has another byte order": lambda: build(Y, [X])(x, out=np.empty((3, 4), ">f4")),
    "out is read-only": lambda: build(Y, [X])(x, out=read_only()),
    "out is the input": lambda: build(Y, [X])(x, out=x),
    "out overlaps the input": lambda: build(Y, [X])(
        big[:12].reshape(3, 4), out=big[6:18].reshape(3, 4)
    ),
    "out overlaps another": twice,
    "out overlaps itself": lambda: build(Y, [X])(
        x, out=np.lib.stride_tricks.as_strided(big, (3, 4), (4, 4))
    ),
    "too few outs": lambda: build([Y, Z], [X, V])(x, v, out=[np.empty((3, 4), np.float32)]),
    "output too large": lambda: limited(lambda: build(Y, [X])),
    "symbolic output too large": lambda: limited(lambda: build(E, [])(n=100)),
    "missing placeholder": lambda: build(Z, [X]),
    "input listed twice": lambda: build(Y, [X, X]),
    "two inputs of one name": lambda: build(Y, [X, te.placeholder((5,), name="X")]),
    "input is an array": lambda: build(Y, [x]),  # type: ignore[list-item]  # the mistake
    "output is an array": lambda: build([Y, x], [X]),  # type: ignore[list-item]  # the mistake
    "no outputs": lambda: build([], [X]),
    "evaluate without an input": lambda: evaluate(Z, {X: x}),
    "memory at a negative size": lambda: build(E, [], "make").memory_at(n=-1),
    "memory at sizes that are none": lambda: build(Y, [X]).memory_at(n=1),
    "tuned at a negative size": lambda: build(C, [A, B], tune={"n": -2, "m": 3}),
    "reported at a text": lambda: lower(C, [A, B]).report(n="3"),  # type: ignore[arg-type]  # the mistake
    "a text as time to tune": lambda: build(Y, [X], tune="fast"),  # type: ignore[arg-type]  # the mistake
    "a negative time to tune": lambda: build(Y, [X], tune=-1.0),
    "measure a symbolic program": lambda: measure_performance(C, [A, B]),
}
