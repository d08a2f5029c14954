"""Combiners of many kinds, for tensors and for dual numbers in plain Python.

The oracle is a left fold of dual numbers with one tangent per input: it shares nothing with the
library. A step gets the functions it uses from outside, so that one text serves both.
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


class Dual:
    """A number with its derivatives by all inputs, and for each the sum of |terms| in it.

    Comparisons look at the number alone.
    """

    def __init__(self, a: Any, b: Any = 0.0, size: Any = None) -> None:
        self.a, self.b = np.float64(a), b
        self.size = np.abs(b) if size is None else size

    @staticmethod
    def of(x: Any) -> Dual:
        return x if isinstance(x, Dual) else Dual(x)

    def through(self, value: Any, slope: Any) -> Dual:
        """f(self) from its value and slope."""
        return Dual(value, self.b * slope, self.size * abs(slope))

    def __add__(self, other: Any) -> Dual:
        o = Dual.of(other)
        return Dual(self.a + o.a, self.b + o.b, self.size + o.size)

    def __sub__(self, other: Any) -> Dual:
        o = Dual.of(other)
        return Dual(self.a - o.a, self.b - o.b, self.size + o.size)

    def __mul__(self, other: Any) -> Dual:
        o = Dual.of(other)
        size = self.size * abs(o.a) + abs(self.a) * o.size
        return Dual(self.a * o.a, self.b * o.a + self.a * o.b, size)

    def __truediv__(self, other: Any) -> Dual:
        o = Dual.of(other)
        q = self.a / o.a
        return Dual(q, (self.b - q * o.b) / o.a, (self.size + abs(q) * o.size) / abs(o.a))

    def __rsub__(self, other: Any) -> Dual:
        return Dual.of(other) - self

    def __rtruediv__(self, other: Any) -> Dual:
        return Dual.of(other) / self

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Dual:
        return Dual(-self.a, -self.b, self.size)

    def __lt__(self, other: Any) -> bool:
        return bool(self.a < Dual.of(other).a)

    def __gt__(self, other: Any) -> bool:
        return bool(self.a > Dual.of(other).a)


class DualFunctions:
    """te's functions for dual numbers, with the contract's rules at ties and for NaN."""

    @staticmethod
    def exp(x: Dual) -> Dual:
        return x.through(np.exp(x.a), np.exp(x.a))

    @staticmethod
    def log(x: Dual) -> Dual:
        return x.through(np.log(x.a), 1 / x.a)

    @staticmethod
    def sin(x: Dual) -> Dual:
        return x.through(np.sin(x.a), np.cos(x.a))

    @staticmethod
    def sqrt(x: Dual) -> Dual:
        return x.through(np.sqrt(x.a), 0.5 / np.sqrt(x.a))

    @staticmethod
    def tanh(x: Dual) -> Dual:
        return x.through(np.tanh(x.a), 1 - np.tanh(x.a) ** 2)

    @staticmethod
    def log1p(x: Dual) -> Dual:
        return x.through(np.log1p(x.a), 1 / (1 + x.a))

    @staticmethod
    def abs(x: Dual) -> Dual:
        return x.through(abs(x.a), np.sign(x.a))

    @staticmethod
    def maximum(x: Any, y: Any) -> Dual:
        x, y = Dual.of(x), Dual.of(y)
        return y if y.a > x.a or (math.isnan(y.a) and not math.isnan(x.a)) else x

    @staticmethod
    def minimum(x: Any, y: Any) -> Dual:
        x, y = Dual.of(x), Dual.of(y)
        return y if y.a < x.a or (math.isnan(y.a) and not math.isnan(x.a)) else x

    @staticmethod
    def select(c: bool, x: Any, y: Any) -> Any:
        return x if c else y


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


def oracle(
    case: Case, inputs: Sequence[np.ndarray], weights: Sequence[float]
) -> tuple[float, np.ndarray, np.ndarray]:
    """(value, derivatives by every input, their sums of |terms|): a left fold of dual numbers.

    Every input has a tangent of its own, so the cost is inputs * steps.
    """
    count, n = len(inputs), len(inputs[0])
    units = np.eye(count * n).reshape(count, n, count * n)
    state: State = tuple([_number(case, c, v) for c, v in enumerate(case.identity)])
    with np.errstate(all="ignore"):
        for k in range(n):
            here = [Dual(a[k], units[m, k]) for m, a in enumerate(inputs)]
            element = case.element(DualFunctions, here, k)
            step = tuple([_number(case, c, v) for c, v in enumerate(element)])
            state = case.step(DualFunctions, state, step)
        total = Dual(0.0, np.zeros(count * n))
        for c, w in zip(case.looked_at, weights, strict=True):
            total = total + Dual.of(state[c]) * w
    shape = (count, n)
    return float(total.a), total.b.reshape(shape), total.size.reshape(shape)


def _number(case: Case, component: int, v: Any) -> Any:
    return v if component in case.integer else Dual.of(v)


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
