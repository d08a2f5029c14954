"""Combiners of many kinds, and what they fold.

A step gets the functions it uses from outside, so that it serves other scalars than tensorad's:
the tests run it on dual numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorad import te
from tensorad.ir.tensor import Tensor

State = tuple[Any, ...]
Step = Callable[[Any, State, State], State]
"""step(functions, state, element) -> state."""


@dataclass(frozen=True)
class Case:
    """A combiner with the elements it folds.

    Attributes:
        step: the combiner.
        identity: its start, one number per component.
        element: element(functions, inputs at k, k) -> the components folded.
        inputs: how many tensors it reads.
        draw: draw(rng, n) -> one input.
        looked_at: the components that are differentiated.
        integer: the components that hold integers.
    """

    name: str
    step: Step
    identity: tuple[float, ...]
    element: Callable[[Any, Sequence[Any], Any], State] = lambda f, x, k: tuple(x)
    inputs: int = 1
    draw: Callable[[np.random.Generator, int], np.ndarray] = lambda rng, n: rng.normal(size=n)
    looked_at: tuple[int, ...] = (0,)
    integer: tuple[int, ...] = ()


def near_one(rng: np.random.Generator, n: int) -> np.ndarray:
    """Factors whose product stays moderate."""
    return np.exp(rng.normal(size=n) / math.sqrt(n))


def positive(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.uniform(0.5, 2.0, n)


def small(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.uniform(-0.9, 0.9, n) / math.sqrt(n)


def coarse(rng: np.random.Generator, n: int) -> np.ndarray:
    """Many ties."""
    return np.round(rng.normal(size=n) * 2) / 2


def _welford(f: Any, x: State, y: State) -> State:
    count = x[0] + y[0]
    delta = y[1] - x[1]
    mean = x[1] + delta * (y[0] / count)
    return count, mean, x[2] + y[2] + delta * delta * (x[0] * y[0] / count)


def _online_logsumexp(f: Any, x: State, y: State) -> State:
    top = f.maximum(x[0], y[0])
    return top, x[1] * f.exp(x[0] - top) + y[1] * f.exp(y[0] - top)


def _matrices(f: Any, x: State, y: State) -> State:
    return (
        x[0] * y[0] + x[1] * y[2],
        x[0] * y[1] + x[1] * y[3],
        x[2] * y[0] + x[3] * y[2],
        x[2] * y[1] + x[3] * y[3],
    )


def _quaternions(f: Any, x: State, y: State) -> State:
    a, b, c, d = x
    e, g, h, i = y
    return (
        a * e - b * g - c * h - d * i,
        a * g + b * e + c * i - d * h,
        a * h - b * i + c * e + d * g,
        a * i + b * h - c * g + d * e,
    )


def _top_two(f: Any, x: State, y: State) -> State:
    return f.maximum(x[0], y[0]), f.maximum(f.minimum(x[0], y[0]), f.maximum(x[1], y[1]))


def _arg(beats: Callable[[Any, Any], Any]) -> Step:
    def step(f: Any, x: State, y: State) -> State:
        take = beats(y[0], x[0])
        return f.select(take, y[0], x[0]), f.select(take, y[1], x[1])

    return step


INF = math.inf
CASES = [
    Case("sum", lambda f, x, y: (x[0] + y[0],), (0.0,)),
    Case("tuple of sums", lambda f, x, y: (x[0] + y[0], x[1] + y[1]), (0.0, 0.0), inputs=2,
         looked_at=(0, 1)),
    Case("moments", lambda f, x, y: (x[0] + y[0], x[1] + y[1]), (0.0, 0.0),
         lambda f, x, k: (x[0], x[0] * x[0]), looked_at=(0, 1)),
    Case("sum of squares inside", lambda f, x, y: (x[0] + y[0] * y[0],), (0.0,)),
    Case("difference", lambda f, x, y: (x[0] - y[0],), (0.0,)),
    Case("prod", lambda f, x, y: (x[0] * y[0],), (1.0,), draw=near_one),
    Case("max", lambda f, x, y: (f.maximum(x[0], y[0]),), (-INF,), draw=coarse),
    Case("min", lambda f, x, y: (f.minimum(x[0], y[0]),), (INF,), draw=coarse),
    Case("argmax pair", _arg(lambda y, x: y > x), (-INF, -1), lambda f, x, k: (x[0], k),
         draw=coarse, integer=(1,)),
    Case("argmin pair", _arg(lambda y, x: y < x), (INF, -1), lambda f, x, k: (x[0], k),
         draw=coarse, integer=(1,)),
    Case("value beside the least key", _arg(lambda y, x: y < x), (INF, 0.0), inputs=2,
         draw=coarse, looked_at=(0, 1)),
    Case("absmax", lambda f, x, y: (f.select(f.abs(y[0]) > f.abs(x[0]), y[0], x[0]),), (0.0,),
         draw=coarse),
    Case("max from zero", lambda f, x, y: (f.maximum(x[0], y[0]),), (0.0,)),
    Case("top two", _top_two, (-INF, -INF), lambda f, x, k: (x[0], -INF),
         looked_at=(0, 1)),
    Case("second largest", _top_two, (-INF, -INF), lambda f, x, k: (x[0], -INF),
         looked_at=(1,)),
    Case("logsumexp", lambda f, x, y: (f.log(f.exp(x[0]) + f.exp(y[0])),), (-INF,)),
    Case("online logsumexp", _online_logsumexp, (-INF, 0.0), lambda f, x, k: (x[0], 1.0),
         looked_at=(0, 1)),
    Case("hypot", lambda f, x, y: (f.sqrt(x[0] * x[0] + y[0] * y[0]),), (0.0,)),
    Case("x + y + x*y", lambda f, x, y: (x[0] + y[0] + x[0] * y[0],), (0.0,), draw=small),
    Case("relativistic sum", lambda f, x, y: ((x[0] + y[0]) / (1 + x[0] * y[0]),), (0.0,),
         draw=small),
    Case("parallel resistances", lambda f, x, y: (1 / (1 / x[0] + 1 / y[0]),), (INF,),
         draw=positive),
    Case("Welford", _welford, (0.0, 0.0, 0.0), lambda f, x, k: (1.0, x[0], 0.0),
         looked_at=(1, 2)),
    Case("affine composition", lambda f, x, y: (x[0] * y[0], x[1] * y[0] + y[1]), (1.0, 0.0),
         inputs=2, draw=near_one, looked_at=(0, 1)),
    Case("Horner", lambda f, x, y: (x[0] * y[1] + y[0], y[1]), (0.0, 1.0),
         lambda f, x, k: (x[0], 0.99), draw=near_one),
    Case("2x2 matrices", _matrices, (1.0, 0.0, 0.0, 1.0), inputs=4,
         draw=lambda rng, n: rng.normal(size=n) * 0.7, looked_at=(0, 1, 2, 3)),
    Case("continued fraction", _matrices, (1.0, 0.0, 0.0, 1.0),
         lambda f, x, k: (x[0], 1.0, 1.0, 0.0), draw=small, looked_at=(0, 2)),
    Case("complex product", lambda f, x, y: (x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]),
         (1.0, 0.0), inputs=2, draw=lambda rng, n: rng.normal(size=n) * 0.8, looked_at=(0, 1)),
    Case("quaternions", _quaternions, (1.0, 0.0, 0.0, 0.0), inputs=4,
         draw=lambda rng, n: rng.normal(size=n) * 0.5, looked_at=(0, 1, 2, 3)),
    Case("geometric mean pair", lambda f, x, y: (x[0] * y[0], x[1] + y[1]), (1.0, 0.0),
         lambda f, x, k: (x[0], 1.0), draw=near_one, looked_at=(0, 1)),
    Case("weighted mean", lambda f, x, y: (
        (x[0] * x[1] + y[0] * y[1]) / (x[1] + y[1]), x[1] + y[1]), (0.0, 0.0), inputs=2,
         draw=positive, looked_at=(0, 1)),
    Case("decaying sum", lambda f, x, y: (x[0] * 0.5 + y[0],), (0.0,)),
    Case("sin(x) + y", lambda f, x, y: (f.sin(x[0]) + y[0],), (0.0,)),
    Case("x / (1 + y)", lambda f, x, y: (x[0] / (1 + y[0]),), (1.0,), draw=small),
    Case("sin(x) * y + x", lambda f, x, y: (f.sin(x[0]) * y[0] + x[0],), (0.7,)),
    Case("tanh(x + y)", lambda f, x, y: (f.tanh(x[0] + y[0]),), (0.1,)),
    Case("softplus chain", lambda f, x, y: (f.log1p(f.exp(x[0])) * 0.5 + y[0],), (0.0,)),
    Case("smooth maximum", lambda f, x, y: (
        (x[0] * f.exp(x[0]) + y[0] * f.exp(y[0])) / (f.exp(x[0]) + f.exp(y[0])),), (0.0,)),
    Case("leaky maximum", lambda f, x, y: (
        f.maximum(x[0], y[0]) + 0.1 * f.minimum(x[0], y[0]),), (0.0,)),
    Case("clipped sum", lambda f, x, y: (f.minimum(f.maximum(x[0] + y[0], -1.0), 1.0),), (0.0,)),
]  # fmt: skip


def reducer(case: Case) -> Any:
    """The case as a reducer of the library."""
    single = len(case.identity) == 1

    def combine(x: Any, y: Any) -> Any:
        return case.step(te, (x,), (y,))[0] if single else case.step(te, x, y)

    def identity(*dtypes: Any) -> Any:
        made = [int(v) if c in case.integer else v for c, v in enumerate(case.identity)]
        return made[0] if single else tuple(made)

    return te.comm_reducer(combine, identity, case.name.replace(" ", "_"))


@dataclass(frozen=True)
class Program:
    """A case as tensors: the inputs, one head per component looked at, and these components."""

    inputs: list[Tensor]
    heads: list[Tensor]
    outputs: list[Tensor]


def program(case: Case, n: int) -> Program:
    """The fold of n elements."""
    inputs = [te.placeholder((n,), dtype="float64", name=f"X{m}") for m in range(case.inputs)]
    heads = [te.placeholder((), dtype="float64", name=f"H{c}") for c in case.looked_at]
    k = te.reduce_axis(n, "k")

    def body() -> Any:
        element = case.element(te, [x[k] for x in inputs], k)
        full = [te.const(e, "float64") if isinstance(e, float) else e for e in element]
        return reducer(case)(full[0] if len(full) == 1 else tuple(full), axis=k)

    made = te.compute((), body, name="Y")
    components = made if isinstance(made, tuple) else (made,)
    return Program(inputs, heads, [components[c] for c in case.looked_at])
