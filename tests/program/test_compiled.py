"""Every form of branches and loops gives, compiled, what the interpreter gives; so do gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.program.trees import flatten

X = np.arange(12.0).reshape(4, 3) / 4
CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "collects of all kinds": (
        lambda x: ta.scan(lambda c, v: (c * v, (7, c, v, x, x[0], c, np.ones(2))), x[0], x),
        (X,),
    ),
    "no carry": (lambda x: ta.scan(lambda c, v: (c, v * 2), None, x), (X,)),
    "carries change places": (
        lambda x: ta.for_loop(0, 3, lambda i, c: (c[1], c[0]), (x, x * 2)),
        (X,),
    ),
    "one carry twice": (lambda x: ta.for_loop(0, 3, lambda i, c: (c[0], c[0]), (x, x * 2)), (X,)),
    "no iteration": (lambda x: ta.scan(lambda c, v: (c + v, v), x[0], x[:0]), (X,)),
    "an empty range": (lambda x: ta.for_loop(2, 0, lambda i, c: c * 2, x), (X,)),
    "numbers of branches": (
        lambda x: ta.cond(x.sum() > 0, lambda: (x, 1, np.ones(3)), lambda: (x * 2, 2, np.zeros(3))),
        (X,),
    ),
    "one result twice": (lambda x: ta.cond(x[0, 0] > 0, lambda: (x, x), lambda: (x, x * 2)), (X,)),
    "branch in loop": (
        lambda x: ta.for_loop(
            0, 4, lambda i, c: ta.cond(c.sum() > i * 2, lambda: c * x[0], lambda: c + x[i]), x[0]
        ),
        (X,),
    ),
    "while in scan": (
        lambda x: ta.scan(
            lambda c, v: (
                ta.while_loop(lambda z: z.sum() < 100, lambda z: z * 2 + v, c * v + 1),
                c,
            ),
            x[0], x,
        ),
        (X,),
    ),
    "scan in scan": (
        lambda x: ta.scan(
            lambda c, v: (c + v.sum(), ta.scan(lambda d, u: (d * u, d + u), c, v)[1]), 0, x
        ),
        (X,),
    ),
    "a count of the call": (lambda x, n: ta.for_loop(0, n, lambda i, c: c * x, x), (X, 3)),
    "rows of a count of the call": (
        lambda x, n: ta.scan(lambda c, _: (c * 2, c), x, length=n)[1].sum(0),
        (X, 3),
    ),
    "a start of the call": (lambda x, n: ta.for_loop(n, 4, lambda i, c: c * x[i], x[3]), (X, 1)),
    "a call in a loop": (
        lambda x: ta.for_loop(
            0, 3, lambda i, c: ta.function(lambda a, b: {"r": a + b * i})(c, x)["r"], x
        ),
        (X,),
    ),
    "a flag": (
        lambda x: ta.while_loop(lambda c: c[0], lambda c: (c[1].sum() < 50, c[1] + x), (True, x)),
        (X,),
    ),
    "an index in a carry": (
        lambda x: ta.for_loop(0, 4, lambda i, c: (c[0] + 1, c[1] + x[c[0]]), (0, x[0])),
        (X,),
    ),
    "rows that are set": (
        lambda x: ta.for_loop(0, 4, lambda i, c: c.at[i].set(x[i] * 2 * c[0]), x + 1),
        (X,),
    ),
    "switch": (
        lambda x, n: ta.switch(n, [lambda v: v, lambda v: v * 2, lambda v: v.sum() + v], x),
        (X, 2),
    ),
}  # fmt: skip


def check(f: Any, *args: Any) -> None:
    f = ta.function(f)
    found = flatten(f(*args)).leaves
    program = f.trace(*args)
    values = dict(zip(program.parameters, flatten(args).leaves, strict=True))
    wanted = ta.interpret(list(program.results), values)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("case", CASES)
def test_compiled_is_interpreted(case: str) -> None:
    f, args = CASES[case]
    check(f, *args)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("case", CASES)
def test_compiled_gradients_are_interpreted(case: str) -> None:
    f, args = CASES[case]

    def total(*args: Any) -> Any:
        s: Any = 0.0
        for t in flatten(f(*args)).leaves:
            if isinstance(t, ta.Tensor) and t.dtype.is_float:
                s = s + (t * t).sum()
        return s

    check(ta.grad(total), *args)
