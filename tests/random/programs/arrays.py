"""Steps without blocks: operators, methods, topi, indices, formulas, folds and writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tensorad as ta
from tests.random.programs.writer import EXTENTS, Writer, as_integer, both, either
from tests.random.programs.writes import gathered, part, scattered, updated
from tests.random.programs.written import Mode, broadcast


def _sigmoid(a: Any) -> Any:
    return 1 / (1 + np.exp(-a))


UNARY: dict[str, tuple[Callable[[float], float], Callable[..., Any]]] = {
    "tanh({0})": (lambda h: 1.0, either(ta.topi.tanh, np.tanh)),
    "sin({0})": (lambda h: 1.0, either(ta.topi.sin, np.sin)),
    "cos({0})": (lambda h: 1.0, both(np.cos)),
    "exp(-{0} * {0})": (lambda h: 1.0, both(lambda a: np.exp(-a * a))),
    "sigmoid({0})": (lambda h: 1.0, either(ta.topi.sigmoid, _sigmoid)),
    "sqrt({0} * {0} + 0.5)": (lambda h: h + 1, both(lambda a: np.sqrt(a * a + 0.5))),
    "{0} ** 2": (lambda h: h * h, both(lambda a: a**2)),
    "-{0}": (lambda h: h, both(lambda a: -a)),
    "abs({0})": (lambda h: h, both(abs)),
    "{0} / (1 + {0} * {0})": (lambda h: 1.0, both(lambda a: a / (1 + a * a))),
    "2.5 - {0} * 0.5": (lambda h: 2.5 + h / 2, both(lambda a: 2.5 - a * 0.5)),
    "log({0} * {0} + 1.5)": (lambda h: h + 1, both(lambda a: np.log(a * a + 1.5))),
}  # fmt: skip
BINARY: dict[str, tuple[Callable[[float, float], float], Callable[..., Any]]] = {
    "{0} + {1}": (lambda a, b: a + b, both(lambda a, b: a + b)),
    "{0} - {1}": (lambda a, b: a + b, both(lambda a, b: a - b)),
    "{0} * {1}": (lambda a, b: a * b, both(lambda a, b: a * b)),
    "{0} / (1 + {1} * {1})": (lambda a, b: a, both(lambda a, b: a / (1 + b * b))),
    "maximum({0}, {1})": (max, both(np.maximum)),
    "minimum({0}, {1})": (max, both(np.minimum)),
}


def unary(w: Writer) -> None:
    x = w.a_float()
    if x is None:
        return
    text = w.rng.choice(list(UNARY))
    high, run = UNARY[text]
    w.add("unary", text, [x], x.dtype, x.shape, high(x.high), run)


def binary(w: Writer) -> None:
    x = w.a_float()
    y = x and w.a_float(lambda v: broadcast(x.shape, v.shape) is not None)
    if x is None or y is None:
        return
    text = w.rng.choice(list(BINARY))
    high, run = BINARY[text]
    shape = broadcast(x.shape, y.shape)
    assert shape is not None
    w.add("binary", text, [x, y], x.dtype, shape, high(x.high, y.high), run)


def constant_array(w: Writer) -> None:
    """An operator with an array of numbers at its left."""
    x = w.a_float(lambda v: bool(v.shape) and isinstance(v.shape[-1], int))
    if x is None:
        return
    n = x.shape[-1]
    assert isinstance(n, int)
    a = np.array([w.rng.choice((-1.0, 0.5, 2.0)) for _ in range(n)], x.dtype)
    w.add(
        "array", f"{a.tolist()} * {{0}}", [x], x.dtype, x.shape, 2 * x.high, both(lambda v: a * v)
    )


def integers(w: Writer) -> None:
    x = w.an_integer()
    if x is None:
        return
    y = w.choose(lambda v: v.dtype == x.dtype and broadcast(x.shape, v.shape) is not None)
    assert y is not None
    shape = broadcast(x.shape, y.shape)
    assert shape is not None
    m, q = w.rng.randint(2, 5), w.rng.randint(1, 3)
    if w.counters and w.rng.random() < 0.4:
        i = w.rng.choice(w.counters)
        w.add(
            "counter as a number", f"({{0}} + {{1}}) % {m}", [x, i], x.dtype, x.shape, m - 1,
            lambda mode, a, k: as_integer(mode, (a + k) % m, x.dtype),
        )  # fmt: skip
        return
    w.add(
        "integers", f"({{0}} * {q} + {{1}} // 2) % {m}", [x, y], x.dtype, shape, m - 1,
        both(lambda a, b: (a * q + b // 2) % m),
    )  # fmt: skip


def condition(w: Writer) -> None:
    """A bool from integers, or from an input: rounding cannot change it."""
    x = w.an_integer()
    y = w.choose(lambda v: v in w.exact)
    if x is not None and (y is None or w.rng.random() < 0.5):
        c = w.rng.randint(0, 3)
        w.add("bool", f"{{0}} > {c}", [x], "bool", x.shape, 1, both(lambda a: a > c))
    elif y is not None:
        w.add("bool", "{0} > 0", [y], "bool", y.shape, 1, both(lambda a: a > 0))


def chosen(w: Writer) -> None:
    """where."""
    c = w.choose(lambda v: v.dtype == "bool")
    x = w.a_float()
    if c is None or x is None or broadcast(c.shape, x.shape) is None:
        return
    shape = broadcast(c.shape, x.shape)
    assert shape is not None
    w.add(
        "where", "where({0}, {1}, 0.5)", [c, x], x.dtype, shape, max(x.high, 0.5),
        either(lambda a, b: ta.topi.where(a, b, 0.5), lambda a, b: np.where(a, b, 0.5)),
    )  # fmt: skip


def reduced(w: Writer) -> None:
    x = w.a_float(lambda v: bool(v.shape))
    if x is None:
        return
    axis = w.rng.randrange(len(x.shape))
    keep = w.rng.random() < 0.3
    n = x.shape[axis]
    shape = x.shape[:axis] + ((1,) if keep else ()) + x.shape[axis + 1 :]
    names = ["sum"] + (["max", "min", "mean", "prod"] if isinstance(n, int) and n else [])
    name = w.rng.choice(names)
    most = x.high * 4 if name == "sum" else x.high**4 if name == "prod" else x.high
    run = both(lambda a: getattr(a, name)(axis=axis, keepdims=keep))
    if name == "mean":
        run = either(lambda a: a.mean(axis, keepdims=keep), _mean(x.dtype, axis, keep))
    w.add(
        f"{name} of an axis", f"{{0}}.{name}(axis={axis}, keepdims={keep})", [x], x.dtype, shape,
        max(most, x.high), run,
    )  # fmt: skip


def _mean(dtype: str, axis: int, keep: bool) -> Callable[[Any], Any]:
    """Of an axis of fixed extent a mean is the sum times a number of the tensor's dtype: float32's
    1/3 is 3e-8 off, also where the sum is interpreted in float64. That is rounding.
    """

    def mean(a: Any) -> Any:
        return a.sum(axis=axis, keepdims=keep) * float(np.dtype(dtype).type(1 / a.shape[axis]))

    return mean


def arranged(w: Writer) -> None:
    """Slices, new axes, transposes, flips."""
    x = w.choose(lambda v: bool(v.shape) and v.dtype != "bool")
    if x is None:
        return
    n, rest = x.shape[0], x.shape[1:]
    ways: list[tuple[str, tuple[Any, ...], Callable[..., Any]]] = [
        ("{0}[::-1]", x.shape, both(lambda a: a[::-1])),
        ("{0}.T", x.shape[::-1], both(lambda a: a.T)),
        ("{0}[..., None]", (*x.shape, 1), both(lambda a: a[..., None])),
    ]
    if isinstance(n, int):
        ways.append(("{0}[1:]", (max(n - 1, 0), *rest), both(lambda a: a[1:])))
        ways.append(("{0}[::2]", ((n + 1) // 2, *rest), both(lambda a: a[::2])))
        if n:
            ways.append(("{0}[-1]", rest, both(lambda a: a[-1])))
            ways.append(("{0}[:, None][0]", (1, *rest), both(lambda a: a[:, None][0])))
    text, shape, run = w.rng.choice(ways)
    if len(shape) <= 3:
        w.add("slices", text, [x], x.dtype, shape, x.high, run)


def joined(w: Writer) -> None:
    """Functions of topi."""
    x = w.a_float(lambda v: bool(v.shape))
    if x is None:
        return
    n = x.shape[-1]
    if isinstance(n, int) and n and w.rng.random() < 0.5:
        w.add(
            "softmax", "softmax({0})", [x], x.dtype, x.shape, 1.0,
            either(lambda a: ta.topi.nn.softmax(a, axis=-1), _softmax),
        )  # fmt: skip
        return
    if w.rng.random() < 0.5:
        w.add(
            "cumsum", "cumsum({0}, axis=0)", [x], x.dtype, x.shape, 5 * x.high,
            either(lambda a: ta.topi.cumsum(a, 0), lambda a: np.cumsum(a, 0)),
        )  # fmt: skip
        return
    y = w.a_float(lambda v: len(v.shape) == len(x.shape) and v.shape[1:] == x.shape[1:])
    assert y is not None
    if isinstance(x.shape[0], int) and isinstance(y.shape[0], int):
        shape = (min(x.shape[0] + y.shape[0], 5), *x.shape[1:])
        w.add(
            "concatenate", "concatenate([{0}, {1}])[:5]", [x, y], x.dtype, shape,
            max(x.high, y.high),
            either(lambda a, b: ta.topi.concatenate([a, b], axis=0)[:5],
                   lambda a, b: np.concatenate([a, b])[:5]),
        )  # fmt: skip


def _softmax(a: Any) -> Any:
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def product(w: Writer) -> None:
    """A matrix product."""
    x = w.a_float(lambda v: len(v.shape) in (1, 2))
    y = x and w.a_float(lambda v: len(v.shape) in (1, 2) and v.shape[0] == x.shape[-1])
    if x is None or y is None:
        return
    shape = x.shape[:-1] + y.shape[1:]
    w.add(
        "matmul", "{0} @ {1}", [x, y], x.dtype, shape, 5 * x.high * y.high, both(lambda a, b: a @ b)
    )


def formula(w: Writer) -> None:
    """A compute that reads at affine indices, quotients and remainders, within a guard."""
    x = w.a_float(lambda v: bool(v.shape) and isinstance(v.shape[0], int))
    if x is None:
        return
    n = x.shape[0]
    assert isinstance(n, int)
    rest = x.shape[1:]
    m = w.rng.choice(EXTENTS)
    a, b, q = w.rng.randint(-2, 2), w.rng.randint(-2, 3), w.rng.randint(1, 3)
    counters = [w.rng.choice(w.counters)] if w.counters and w.rng.random() < 0.5 else []
    is_rest = w.rng.random() < 0.4 and n > 0

    def place(i: Any, k: Any) -> Any:
        at = (i * a + b) // q + k
        return at % n if is_rest else at

    def traced(mode: Mode, v: Any, *k: Any) -> Any:
        def body(*i: Any) -> Any:
            at = place(i[0], k[0]() if k and isinstance(k[0], ta.Tensor) else k[0] if k else 0)
            value = v[(at, *i[1:])]
            if is_rest:
                return value
            return ta.select(ta.all_of(at >= 0, at < n), value, 0.25)

        body = _named(body, 1 + len(rest))
        return ta.compute((m, *mode.shape(rest)), body, name="part")

    def plain(mode: Mode, v: Any, *k: Any) -> Any:
        made = np.full((m, *v.shape[1:]), 0.25)
        for i in range(m):
            at = place(i, k[0] if k else 0)
            if 0 <= at < n:
                made[i] = v[at]
        return made

    shown = f"(i * {a} + {b}) // {q}" + (" + {1}" if counters else "")
    text = f"compute([{m}, ...], {{0}}[{shown}{f' % {n}' if is_rest else ', guarded'}])"
    w.add(
        "formula with a counter" if counters else "formula", text, [x, *counters], x.dtype,
        (m, *rest), max(x.high, 0.25),
        lambda mode, *args: (traced if mode.is_traced else plain)(mode, *args),
    )  # fmt: skip


def _named(f: Callable[..., Any], rank: int) -> Callable[..., Any]:
    """A function of so many parameters."""
    return {1: lambda i: f(i), 2: lambda i, j: f(i, j), 3: lambda i, j, k: f(i, j, k)}[rank]


FOLDS: dict[str, tuple[Callable[..., Any], float, float]] = {
    "horner": (lambda a, b: a * 0.5 + b, 0.0, 2.0),
    "joined": (lambda a, b: a + b + a * b, 0.0, 100.0),
    "hypot": (lambda a, b: np.sqrt(a * a + b * b), 0.5, 8.0),
}
"""Combiners, their first values, and how much larger than its terms a fold is."""


def fold(w: Writer) -> None:
    """A fold with a combiner of its own over a slanted window of the leading axis."""
    x = w.a_float(lambda v: bool(v.shape))
    if x is None:
        return
    n, rest = x.shape[0], x.shape[1:]
    name = w.rng.choice(list(FOLDS))
    combine, first, most = FOLDS[name]

    def traced(mode: Mode, v: Any) -> Any:
        reducer = ta.comm_reducer(combine, lambda t: first, name, associative=False)

        def body(*i: Any) -> Any:
            k = ta.reduce_axis(mode.dim(n), name="k")
            return reducer(v[(k, *i)], axis=k)

        made = {0: lambda: body(), 1: lambda i: body(i), 2: lambda i, j: body(i, j)}[len(rest)]
        return ta.compute(mode.shape(rest), made, name=name)

    def plain(mode: Mode, v: Any) -> Any:
        made = np.full(v.shape[1:], first)
        for row in v:
            made = combine(made, row)
        return made

    w.add(
        f"fold {name}", f"{name}({{0}}, axis=0)", [x], x.dtype, rest, most * max(x.high, 1),
        lambda mode, v: (traced if mode.is_traced else plain)(mode, v),
    )  # fmt: skip


def pair_fold(w: Writer) -> None:
    """A fold of pairs: a linear recurrence; both its results."""
    x = w.a_float(lambda v: bool(v.shape) and v.high <= 2)
    if x is None:
        return
    n, rest = x.shape[0], x.shape[1:]

    def combine(a: Any, b: Any) -> Any:
        return a[0] * b[0], b[0] * a[1] + b[1]

    def traced(mode: Mode, v: Any) -> Any:
        reducer = ta.comm_reducer(combine, lambda s, t: (1.0, 0.0), "recurrence")

        def body(*i: Any) -> Any:
            k = ta.reduce_axis(mode.dim(n), name="k")
            return reducer((v[(k, *i)] * 0.375, v[(k, *i)] + 0.5), axis=k)

        made = {0: lambda: body(), 1: lambda i: body(i), 2: lambda i, j: body(i, j)}[len(rest)]
        return ta.compute(mode.shape(rest), made, name="recurrence")

    def plain(mode: Mode, v: Any) -> Any:
        made: Any = (np.ones(v.shape[1:]), np.zeros(v.shape[1:]))
        for row in v:
            made = combine(made, (row * 0.375, row + 0.5))
        return made

    values = tuple([w.fresh(x.dtype, rest, h) for h in (1.0, 12.5)])
    from tests.random.programs.written import Step

    step = Step(
        values, f"recurrence({x}, axis=0)",
        lambda mode, env: (traced if mode.is_traced else plain)(mode, env[x.number]),
    )  # fmt: skip
    w.record(step, "fold of pairs")
    w.small(values[1])


STEPS: tuple[Callable[[Writer], None], ...] = (
    unary, unary, binary, binary, constant_array, integers, condition, chosen, reduced, arranged,
    joined, product, formula, formula, fold, pair_fold, gathered, updated, updated, scattered,
    part, part,
)  # fmt: skip
