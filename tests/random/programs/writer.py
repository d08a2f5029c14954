"""What writes the steps of a block: the values that it sees, and choices among them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np

import tensorad as ta
from tests.random.programs.written import Block, Counter, Dim, Env, Mode, Step, Value

LARGEST = 2.0
"""Floats stay below."""
EXTENTS = (0, 1, 2, 3, 3, 4)


class Writer:
    """Steps in order. A writer of a block inside sees what was there before it.

    Attributes:
        rng: where all choices come from.
        dtype: of floats made here.
        seen: values that steps may read.
        counters: of loops around.
        depth: how many branches, loops and calls are around.
        features: what the program contains.
    """

    def __init__(
        self, rng: random.Random, dtype: str, sizes: Sequence[str], numbers: count[int],
        outer: Writer | None = None,
    ) -> None:  # fmt: skip
        self.rng, self.dtype, self.sizes, self.numbers = rng, dtype, tuple(sizes), numbers
        self.seen: list[Value] = list(outer.seen) if outer else []
        self.counters: list[Counter] = list(outer.counters) if outer else []
        self.exact: dict[Value, None] = outer.exact if outer else {}
        self.features: set[str] = outer.features if outer else set()
        self.depth: int = outer.depth + 1 if outer else 0
        self.block = Block()

    def inner(self) -> Writer:
        """Of a block inside."""
        return Writer(self.rng, self.dtype, self.sizes, self.numbers, self)

    def fresh(self, dtype: str, shape: Sequence[Dim], high: float) -> Value:
        return Value(next(self.numbers), dtype, tuple(shape), high)

    def parameter(self, dtype: str, shape: Sequence[Dim], high: float) -> Value:
        """A value that the block is given."""
        made = self.fresh(dtype, shape, high)
        self.seen.append(made)
        return made

    def counter(self, high: Dim) -> Counter:
        made = Counter(next(self.numbers), high)
        self.counters.append(made)
        return made

    def choose(self, wanted: Callable[[Value], bool]) -> Value | None:
        """A value, rather a late one."""
        found = [v for v in self.seen if wanted(v)]
        if not found:
            return None
        return found[-1 - min(int(self.rng.expovariate(0.35)), len(found) - 1)]

    def a_float(self, wanted: Callable[[Value], bool] = lambda v: True) -> Value | None:
        return self.choose(lambda v: v.dtype == self.dtype and wanted(v))

    def an_integer(self, wanted: Callable[[Value], bool] = lambda v: True) -> Value | None:
        return self.choose(lambda v: v.dtype.startswith("int") and wanted(v))

    def record(self, step: Step, feature: str) -> None:
        self.features.add(feature)
        self.block.steps.append(step)
        self.seen += step.made

    def add(
        self, feature: str, text: str, args: Sequence[Value | Counter], dtype: str,
        shape: Sequence[Dim], high: float, run: Callable[..., Any],
    ) -> Value:  # fmt: skip
        """One value by run(mode, *args); a float that may be large is made smaller."""
        made = self.fresh(dtype, shape, high)
        at = [a.number for a in args]

        def values(mode: Mode, env: Env) -> list[Any]:
            return [run(mode, *[env[n] for n in at])]

        shown = text.format(*args)
        self.record(Step((made,), shown, values), feature)
        return self.small(made) if made.is_float and high > LARGEST else made

    def small(self, x: Value, limit: float = LARGEST) -> Value:
        """x by tanh within the limit."""
        if x.high <= limit:
            return x
        scale = float(np.float32(limit / x.high))
        return self.add(
            "tanh", f"tanh({{0}} * {scale:.3g}) * {limit}", [x], x.dtype, x.shape, limit,
            lambda mode, a: tanh(mode, a * scale) * limit,
        )  # fmt: skip

    def converted(self, x: Value, dtype: str) -> Value:
        if x.dtype == dtype:
            return x
        return self.add(
            "astype", f"{{0}}.astype({dtype})", [x], dtype, x.shape, x.high,
            lambda mode, a: a.astype(dtype if mode.is_traced else wide(dtype)),
        )  # fmt: skip

    def shaped(self, x: Value, shape: tuple[Dim, ...]) -> Value:
        """x summed over all its axes and broadcast to the shape, unless it has it."""
        if x.shape == shape:
            return x
        low = x
        if x.shape:
            axes = tuple(range(len(x.shape)))
            low = self.add(
                "sum", "sum({0})", [x], x.dtype, (), x.high * 100,
                lambda mode, a: a.sum(axis=axes),
            ) if x.is_float else self.add(
                "remainder of a sum", "sum({0}) % 5", [x], x.dtype, (), 4,
                lambda mode, a: as_integer(mode, a.sum(axis=axes), x.dtype) % 5,
            )  # fmt: skip
        if not shape:
            return low
        return self.add(
            "broadcast", f"broadcast_to({{0}}, {list(shape)})", [low], low.dtype, shape, low.high,
            lambda mode, a: broadcast_to(mode, a, mode.shape(shape)),
        )  # fmt: skip

    def done(self, results: Sequence[Value]) -> Block:
        self.block.results = tuple(results)
        return self.block


def wide(dtype: str) -> str:
    """The dtype that NumPy's run has in place of it."""
    return {"float32": "float64", "int32": "int64"}.get(dtype, dtype)


def as_integer(mode: Mode, a: Any, dtype: str) -> Any:
    return a.astype(dtype) if mode.is_traced else a


def tanh(mode: Mode, a: Any) -> Any:
    return ta.topi.tanh(a) if mode.is_traced else np.tanh(a)


def broadcast_to(mode: Mode, a: Any, shape: tuple[Any, ...]) -> Any:
    return ta.topi.broadcast_to(a, shape) if mode.is_traced else np.broadcast_to(a, shape)


def either(traced: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    """What runs in both ways."""
    return lambda mode, *args: (traced if mode.is_traced else plain)(*args)


def both(f: Callable[..., Any]) -> Callable[..., Any]:
    """What is written alike for tensors and for arrays."""
    return lambda mode, *args: f(*args)
