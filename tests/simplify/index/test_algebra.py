"""Index algebra keeps every value, on every point of small domains."""

from __future__ import annotations

import random

import pytest

from tensorad import te
from tensorad.ir.expr import FALSE, TRUE, Axis, Expr, call, int_const
from tensorad.ir.visit import postorder
from tensorad.simplify.index.algebra import simplify
from tests.support.oracles import box, evaluate, points

CASES = {
    "(a*5 + b) // 5": "a",
    "(a*5 + b) % 5": "b",
    "(a*10 + b) % 5": "b",
    "a + b - a": "b",
    "2*a + 3*a": "5*a",
    "a - (a - b)": "b",
    "a % 7": "a % 7",
    "a // 9": "0",
    "a // 4": "a//4",
    "(a*6 + 13) // 3": "2*a + 4",
    "(a*6 + 13) % 3": "1",
}


@pytest.mark.parametrize("text", CASES)
def test_short_forms(text: str) -> None:
    a, b = box(a=9, b=5)
    made = eval(text, {"a": a, "b": b})
    assert str(simplify(made)) == CASES[text]


def test_comparisons_decided_by_bounds() -> None:
    a, b = box(a=9, b=5)
    assert simplify(a < 9) is TRUE
    assert simplify(a * 5 + b < 45) is TRUE
    assert simplify(a >= 9) is FALSE
    assert simplify(a - a + b == 5) is FALSE
    undecided = a > b
    assert simplify(undecided) is undecided


def test_extrema_decided_by_bounds() -> None:
    a, b = box(a=9, b=5)
    assert simplify(call("maximum", a, int_const(0))) is a
    assert simplify(call("minimum", a + 9, b)) is b


def test_data_is_left_alone() -> None:
    x = te.placeholder((9,), dtype="int64", name="x")
    (a,) = box(a=9)
    wraps = x[a] + 1 > x[a]
    assert simplify(wraps) is wraps


def _random(rng: random.Random, axes: list[Axis], depth: int) -> Expr:
    if depth == 0:
        return rng.choice([*axes, int_const(rng.randrange(-4, 5))])
    a = _random(rng, axes, depth - 1)
    b = _random(rng, axes, depth - 1)
    c = int_const(rng.choice([-3, -2, 2, 3, 4, 5]))
    op = rng.choice(["add", "sub", "mul", "floordiv", "mod", "minimum", "maximum", "neg"])
    if op == "neg":
        return call(op, a)
    return call(op, a, c if op in ("mul", "floordiv", "mod") else b)


def test_random_expressions_keep_their_values() -> None:
    for seed in range(400):
        rng = random.Random(seed)
        axes = box(i=rng.randrange(1, 6), j=rng.randrange(1, 5))
        e = _random(rng, axes, 4)
        for root in (e, call(rng.choice(["lt", "le", "eq", "ne"]), e, _random(rng, axes, 2))):
            short = simplify(root)
            assert simplify(short) is short, (seed, str(short), str(simplify(short)))
            for p in points(axes):
                assert evaluate(short, p) == evaluate(root, p), (seed, str(root), str(short))


@pytest.mark.slow
def test_deep_sums_take_linear_time() -> None:
    (a,) = box(a=3)
    e: Expr = a
    for n in range(5000):
        e = e + (a * n) % 7
    assert len(postorder(simplify(e))) <= len(postorder(e))
