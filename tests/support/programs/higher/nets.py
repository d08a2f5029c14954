"""Trees with fields of every kind, random ones, and random programs of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tensorad as ta
from tensorad.program.data.instances import Instance, of_leaves

Random = np.random.Generator
Color: Any = ta.variant("Color", Red={}, Green={"n": "int64"})
Net: Any = ta.variant(
    "Net",
    Leaf={"value": "float64[2]", "word": "int64", "color": Color},
    One={"child": "Net", "scale": "float64"},
    Two={"left": "Net", "right": "Net", "rate": ("float64", {"bias": "float64[2]", "n": "int32"})},
    Many={"nets": "Nets", "flag": "bool"},
    Stop={"n": "int64"},
)
Nets: Any = ta.variant("Nets", End={}, More={"first": "Net", "rest": "Nets"})


def random_net(rng: Random, size: int) -> Any:
    """A net of about `size` parts; now and then a part is there twice."""
    kind = int(rng.integers(4)) if size > 1 else 4
    if kind == 1:
        return Net.One(random_net(rng, size - 1), rng.normal())
    if kind == 2:
        nets = Nets.End()
        for part in _parts(rng, size - 1, 3):
            nets = Nets.More(random_net(rng, part), nets)
        return Net.Many(nets, bool(rng.integers(2)))
    if kind in (0, 3):
        left, right = [random_net(rng, part) for part in _parts(rng, size - 1, 2)]
        rate = (rng.normal(), {"bias": rng.normal(size=2), "n": np.int32(rng.integers(1, 3))})
        return Net.Two(left, left if kind == 3 else right, rate)
    if rng.integers(6) == 0:
        return Net.Stop(int(rng.integers(3)))
    color = Color.Green(int(rng.integers(3))) if rng.integers(2) else Color.Red()
    return Net.Leaf(rng.normal(size=2), int(rng.integers(3)), color)


def _parts(rng: Random, size: int, count: int) -> list[int]:
    own = rng.multinomial(max(size - count, 0), [1 / count] * count)
    return [int(n) + 1 for n in own]


_ONE: Sequence[Callable[[Any, Any], Any]] = (
    lambda y, scale: ta.sin(y * scale),
    lambda y, scale: y * scale * scale,
    lambda y, scale: y + scale,
    lambda y, scale: ta.cond(scale > 0, lambda: ta.tanh(y) * scale, lambda: y),
)
_TWO: Sequence[Callable[[Any, Any, Any, Any], Any]] = (
    lambda a, b, r, bias: ta.tanh(a * b * r + bias),
    lambda a, b, r, bias: ta.sin(a) * r + b * bias,
    lambda a, b, r, bias: a - b * bias[0],
    lambda a, b, r, bias: ta.for_loop(0, 2, lambda i, y: ta.sin(y * r) + b, a) + bias,
)
_LEAF: Sequence[Callable[[Any, Any], Any]] = (
    lambda value, w: ta.tanh(value * w),
    lambda value, w: value * value * w,
    lambda value, w: ta.cos(value) + w,
)


def program(rng: Random) -> Callable[[Any, Any], Any]:
    """A random function of a net and of weights, with a float as result."""
    one, two, leaf = [table[int(rng.integers(len(table)))] for table in (_ONE, _TWO, _LEAF)]

    @ta.function
    def run(net: Any, w: Any) -> Any:
        def of_leaf(value: Any, word: Any, color: Any) -> Any:
            shade = ta.match(color, {"Red": lambda: 0.5, "Green": lambda n: n * 1.0})
            return leaf(value, w[word]) * shade

        arms = {
            Net.Leaf: of_leaf,
            Net.One: lambda child, scale: one(run(child, w), scale),
            Net.Two: lambda a, b, rate: two(
                run(a, w), run(b, w), rate[0], rate[1]["bias"] * rate[1]["n"]
            ),
            Net.Many: lambda nets, flag: ta.select(flag, 0.5, -0.5) * each(nets, w),
            Net.Stop: lambda n: np.ones(2) * n,
        }
        return ta.match(net, arms)

    @ta.function
    def each(nets: Any, w: Any) -> Any:
        more = {Nets.End: lambda: np.ones(2), Nets.More: lambda n, r: run(n, w) + each(r, w) * 0.5}
        return ta.match(nets, more)

    return lambda net, w: (run(net, w) ** 2).sum()


def changed(value: Any, f: Callable[[Any], Any]) -> Any:
    """The value with other floats: `f` of each, in the order of `floats`."""
    if isinstance(value, Instance):
        leaves = [changed(leaf, f) for leaf in value.leaves]
        return of_leaves(value.record_type, value.tag, leaves)
    return f(value) if np.asarray(value).dtype.kind == "f" else value


def floats(value: Any) -> list[Any]:
    """All floats of a value or gradient, part by part, as often as the parts are there."""
    if isinstance(value, Instance):
        return [x for leaf in value.leaves for x in floats(leaf)]
    array = np.asarray(value)
    return list(array.ravel()) if array.dtype.kind == "f" else []


def shifted(value: Any, along: Any, h: float) -> Any:
    """value + h * along, of values with the same parts."""
    rest = iter(floats(along))
    return changed(value, lambda x: x + h * _like(x, [next(rest) for _ in range(np.size(x))]))


def _like(x: Any, numbers: list[float]) -> Any:
    return np.array(numbers).reshape(np.shape(x))
