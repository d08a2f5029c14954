"""Steps that read and write where integers say: gathers, updates, scatters."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorad as ta
from tests.random.programs.writer import Writer, both, either
from tests.random.programs.written import Counter, Value


def gathered(w: Writer) -> None:
    x = w.a_float(
        lambda v: bool(v.shape) and v.shape[0] not in (0,) and isinstance(v.shape[0], int)
    )
    i = w.an_integer(lambda v: len(v.shape) <= 2)
    if x is None or i is None or len(i.shape) + len(x.shape) > 4:
        return
    n = x.shape[0]
    assert isinstance(n, int)
    w.add(
        "gather", f"{{0}}[{{1}} % {n}]", [x, i], x.dtype, i.shape + x.shape[1:], x.high,
        both(lambda a, k: a[k % n]),
    )  # fmt: skip


METHODS = {"set": None, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _changed(name: str, a: Any, key: Any, v: Any) -> Any:
    made = np.array(a)
    if name == "set":
        made[key] = v
    else:
        METHODS[name].at(made, key, v)
    return made


def updated(w: Writer) -> None:
    """x.at[...] at a number, a counter, an array of integers or a window."""
    x = w.a_float(lambda v: bool(v.shape) and isinstance(v.shape[0], int) and v.shape[0] > 0)
    if x is None:
        return
    n, rest = x.shape[0], x.shape[1:]
    assert isinstance(n, int)
    name = w.rng.choice(("set", "add", "add", "mul", "max"))
    counters = w.counters if w.rng.random() < 0.7 else []
    i = w.an_integer(lambda v: len(v.shape) <= 1)
    y = w.a_float(lambda v: v.shape == rest or v.shape == ())
    if y is None:
        return
    high = (
        (x.high + y.high * 4)
        if name == "add"
        else max(x.high * y.high**4, x.high, y.high)
        if name == "mul"
        else max(x.high, y.high)
    )
    if counters:
        k: Value | Counter = w.rng.choice(counters)
    elif i is not None and w.rng.random() < 0.7:
        k = i
    else:
        start = w.rng.randrange(n)
        w.add(
            f"at window {name}", f"{{0}}.at[{start}:].{name}({{1}})", [x, y], x.dtype, x.shape,
            high,
            either(lambda a, v: getattr(a.at[start:], name)(v),
                   lambda a, v: _changed(name, a, np.s_[start:], v)),
        )  # fmt: skip
        return
    kind = "counter" if counters else "integer" if not k.shape else "integers"  # type: ignore[union-attr]  # a value
    w.add(
        f"at {kind} {name}", f"{{0}}.at[{{2}} % {n}].{name}({{1}})", [x, y, k], x.dtype, x.shape,
        high,
        either(lambda a, v, k: getattr(a.at[k % n], name)(v),
               lambda a, v, k: _changed(name, a, k % n, v)),
    )  # fmt: skip


def scattered(w: Writer) -> None:
    """A sum by places that are data."""
    i = w.an_integer(lambda v: len(v.shape) == 1)
    x = i and w.a_float(lambda v: v.shape[:1] == i.shape)
    if x is None or i is None:
        return
    m = w.rng.randint(1, 4)

    def plain(a: Any, k: Any) -> Any:
        made = np.zeros((m, *a.shape[1:]))
        np.add.at(made, k % m, a)
        return made

    w.add(
        "scatter", f"segment_sum({{0}}, {{1}} % {m}, {m})", [x, i], x.dtype, (m, *x.shape[1:]),
        x.high * 4, either(lambda a, k: ta.topi.segment_sum(a, k % m, m), plain),
    )  # fmt: skip


def part(w: Writer) -> None:
    """A row at a counter."""
    if not w.counters:
        return
    i = w.rng.choice(w.counters)
    x = w.a_float(
        lambda v: (
            bool(v.shape)
            and (v.shape[0] == i.high or (isinstance(v.shape[0], int) and v.shape[0] > 0))
        )
    )
    if x is None:
        return
    n = x.shape[0]
    if n == i.high:
        w.add(
            "row at a counter",
            "{0}[{1}]",
            [x, i],
            x.dtype,
            x.shape[1:],
            x.high,
            both(lambda a, k: a[k]),
        )
        return
    w.add(
        "row at a counter", f"{{0}}[{{1}} % {n}]", [x, i], x.dtype, x.shape[1:], x.high,
        both(lambda a, k: a[k % n]),
    )  # fmt: skip
