"""Random loops that read outside tensors whole, at moving indices, at indices from data."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import tensorad as ta

N, ROWS = 3, 13
WAYS: list[dict[str, Any]] = [
    {"checkpoint": "sqrt"}, {"checkpoint": 1}, {"checkpoint": 2}, {"checkpoint": 4},
    {"checkpoint": 5},
    {"memory": 2 * 8 * N}, {"memory": 4 * 8 * N}, {"memory": 40 * 8 * N},
]  # fmt: skip
TERMS = {
    "whole": "ta.tanh(w).sum() * c",
    "by the carry": "ta.compute((N,), lambda k: c[k] * w[k] + w[k + 1])",
    "matrix": "m @ c",
    "a row": "m[i % 3]",
    "now": "w[i] * c",
    "before": "w[i - 1] * c",
    "after": "w[i + 1]",
    "later": "w[i + 2] * c",
    "from the end": "w[ROWS + 2 - i] * c",
    "by data": "w[at[i]] * c",
    "an element": "w[0] * c[1]",
    "all rows": "xs[i]",
    "a column": "xs[i] * xs[i - 1] * c",
    "a diagonal": "xs[i, i % 3] * xs[i + 1, 2]",
    "a branch": "ta.cond(c[0] > 0.1, lambda: w[i] * c, lambda: w[2:5] + m[1])",
}


def random_loop(seed: int) -> tuple[str, Any, tuple[Any, ...]]:
    """What it does, a function (way) -> function, and arguments."""
    rng = random.Random(seed)
    names = rng.sample(list(TERMS), rng.randint(2, 5))
    body = " + ".join([f"{rng.choice(['0.3', '0.7', '-0.4'])} * ({TERMS[n]})" for n in names])
    kind = rng.choice(["for", "for", "scan", "reverse", "while", "count"])
    code = compile(f"ta.tanh({body})", "body", "eval")
    data = np.random.default_rng(seed)
    args = (data.normal(size=N), data.normal(size=ROWS + 4), data.normal(size=(N, N)) / 2,
            data.normal(size=(ROWS + 4, N)))  # fmt: skip
    at = ta.const(data.integers(0, ROWS, size=ROWS + 4))

    def of(way: dict[str, Any]) -> Any:
        def f(x: Any, w: Any, m: Any, xs: Any) -> Any:
            def step(i: Any, c: Any) -> Any:
                known = {"ta": ta, "N": N, "ROWS": ROWS, "i": i, "c": c, "w": w, "m": m}
                return eval(code, {**known, "xs": xs, "at": at})

            return (_run(kind, step, x, w, way) * x + w[1]).sum() + w.sum()

        return f

    return f"{kind}: {body}", of, args


def _run(kind: str, step: Any, x: Any, w: Any, way: dict[str, Any]) -> Any:
    if kind in ("scan", "reverse"):
        rows = ta.compute((ROWS,), lambda k: k + 1)
        is_reversed = kind == "reverse"
        made = ta.scan(lambda c, i: (step(i, c), None), x, rows, reverse=is_reversed, **way)
        return made[0]
    if kind == "while":
        start = {"n": 1, "c": x}
        made = ta.while_loop(
            lambda s: s["n"] <= ROWS,
            lambda s: {"n": s["n"] + 1, "c": step(s["n"], s["c"])},
            start,
            **({"memory": way["memory"] * 2} if "memory" in way else way),
        )
        return made["c"]
    if kind == "count":
        upper = ta.compute((), lambda: ta.select(w[0] > 100.0, 3, ROWS + 1).astype("int64"))
        return ta.for_loop(1, upper, step, x, **way)
    return ta.for_loop(1, ROWS + 1, step, x, **way)


def check_same_bits(seed: int) -> None:
    """The gradient has the same bits however much is stored."""
    text, of, args = random_loop(seed)
    wanted = ta.grad(of({}), argnums=(0, 1, 2, 3))(*args)
    for way in WAYS:
        found = ta.grad(of(way), argnums=(0, 1, 2, 3))(*args)
        for name, a, b in zip("x w m xs".split(), wanted, found, strict=True):
            assert np.array_equal(a, b), f"{seed}: d{name} with {way}, {text}"
