"""Derivatives in texts by values whose tags data choose: values of the same tags."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import tensorad as ta
from tensorad.language import Tagged, check, interpret, parse

SHAPES: Final = """data shape = circle(float64[]) | box(float64[], float64[3]) | none
def area(s) {
  match s { case circle(r) { r * r * 3.0 } case box(a, b) { a * sum(b * b) } case none { 0.0 } }
}
"""
LISTS: Final = """data list = nil | cons(float64[], list)
def total(xs) { match xs { case nil { 0.0 } case cons(h, t) { sin(h) * h + total(t) } } }
def added(xs, ys) {
  match xs {
    case nil { inject nil }
    case cons(h, t) { match ys { case nil { inject nil } case cons(d, u) {
      inject cons(h - d * 0.1, added(t, u)) } } }
  }
}
"""
NUMBERED: Final = """data list = nil | cons(int64[], float64[2], (float64[], int64[]), list)
def total(xs) {
  match xs {
    case nil { 0.0 }
    case cons(n, h, p, t) { sin(sum(h)) * float64(n) * p[0] + total(t) }
  }
}
def heads(xs) { match xs { case nil { 0.0 } case cons(n, h, p, t) { sum(h) * p[0] + heads(t) } } }
"""


def shape(n: int) -> Tagged:
    box = Tagged("box", (np.float64(2.0), np.arange(3.0)))
    return (Tagged("circle", (np.float64(0.7),)), box, Tagged("none"))[n]


def numbers(n: int) -> Tagged:
    found = Tagged("nil")
    for k in range(n):
        found = Tagged("cons", (np.float64(0.5 + k), found))
    return found


def numbered(n: int) -> Tagged:
    found = Tagged("nil")
    for k in range(n):
        pair = (np.float64(k - 0.5), np.int64(k))
        found = Tagged("cons", (np.int64(k + 1), np.arange(2.0) + k, pair, found))
    return found


CASES: Final = {
    "one alternative": (SHAPES + "def f(s : shape) { grad(area)(s) }", shape),
    "its value, too": (SHAPES + "def f(s) { value_and_grad(area)(s) }", shape),
    "made under a branch": (
        SHAPES
        + """def f(s) {
  x = area(s)
  chosen = if x > 2.0 { inject circle(x) } else { inject none }
  (grad(area)(chosen), grad(fn (v) {
    area(if v > 2.0 { inject circle(v) } else { inject none }) })(x))
}""",
        shape,
    ),
    "a list": (LISTS + "def f(xs : list) { grad(total)(xs) }", numbers),
    "a step along its gradient": (
        LISTS + "def f(xs : list) { total(added(xs, grad(total)(xs))) }",
        numbers,
    ),
    "a loop of steps": (
        LISTS + "def f(xs : list) { loop i in [0, 3) carry (a = xs) { added(a, grad(total)(a)) } }",
        numbers,
    ),
    "twice": (
        LISTS + "def f(xs) { grad(fn (a) { total(added(a, grad(total)(a))) })(xs) }",
        numbers,
    ),
    "beside numbers": (
        LISTS + "def f(xs) { grad(fn (a, x) { total(a) * x[0] })(xs, (total(xs), 3)) }",
        numbers,
    ),
    "integers": (NUMBERED + "def f(xs : list) { grad(total)(xs) }", numbered),
    "twice with integers": (
        NUMBERED + "def f(xs : list) { grad(fn (a) { heads(grad(total)(a)) })(xs) }",
        numbered,
    ),
    "along itself": (NUMBERED + "def f(xs) { jvp(total)(xs, xs) }", numbered),
    "along its gradient": (NUMBERED + "def f(xs) { jvp(total)(xs, grad(total)(xs)) }", numbered),
    "along a known value": (
        LISTS + "def f(xs) { jvp(total)(xs, inject cons(2.0, inject nil)) }",
        lambda n: numbers(1),
    ),
    "a tangent with tags": (LISTS + "def f(xs) { jvp(fn (a) { added(a, a) })(xs, xs) }", numbers),
}


def leaves(value: Any) -> list[Any]:
    if isinstance(value, Tagged):
        return [value.tag, *leaves(value.fields)]
    return [v for part in value for v in leaves(part)] if isinstance(value, tuple) else [value]


def assert_same(value: Any, wanted: Any) -> None:
    for a, b in zip(leaves(wanted), leaves(value), strict=True):
        if isinstance(a, str):
            assert a == b
        else:
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_interpreted_and_compiled(name: str) -> None:
    text, make = CASES[name]
    program = parse(text)
    check(program)
    for n in (0, 1, 2):
        assert_same(program["f"](make(n)), interpret(program, "f", make(n)).result)


def test_differences() -> None:
    f = parse(LISTS + "def f(xs : list) { grad(total)(xs) }\ndef g(xs : list) { total(xs) }")
    step = 1e-6
    found = leaves(f["f"](numbers(3)))[1::2]
    for k, slope in enumerate(found[:3]):
        moved = [_moved(numbers(3), k, s) for s in (step, -step)]
        above, below = [float(f["g"](xs)) for xs in moved]
        np.testing.assert_allclose(slope, (above - below) / (2 * step), rtol=1e-7)


def _moved(xs: Tagged, k: int, by: float) -> Tagged:
    h, t = xs.fields
    return Tagged("cons", (h + by, t) if k == 0 else (h, _moved(t, k - 1, by)))


def test_the_same_as_from_outside() -> None:
    program = parse(LISTS + "def f(xs : list) { grad(total)(xs) }")
    assert_same(program["f"](numbers(4)), ta.grad(program["total"])(numbers(4)))


def test_one_program_whatever_the_tags() -> None:
    """The gradient of a list is one compiled program, of linear work."""
    f = parse(LISTS + "def f(xs : list) { grad(total)(xs) }")["f"]
    texts = [str(f.trace(numbers(n))) for n in (0, 1, 40)]
    assert texts[0] == texts[1] == texts[2]


def test_jacobians_have_an_array_for_each_field() -> None:
    """Tags that are known outside are known where the Jacobian is written down."""
    text = (
        SHAPES
        + "def f(s) { match s { case circle(r) { (r, sin(r) * r) } "
        + ("case box(a, b) { (a * sum(b), a * b) } case none { (0.0, 0.0) } } }")
    )
    first, second = ta.jacobian(parse(text)["f"])(shape(1))
    assert first.tag == second.tag == "box"
    np.testing.assert_allclose(first.fields[0], 3.0)
    np.testing.assert_allclose(first.fields[1], [2.0, 2.0, 2.0])
    np.testing.assert_allclose(second.fields[0], np.arange(3.0))
    np.testing.assert_allclose(second.fields[1], 2.0 * np.eye(3))
    row = ta.hessian(parse(SHAPES)["area"])(shape(1))
    np.testing.assert_allclose(row.fields[0].fields[1], 2.0 * np.arange(3.0))
    np.testing.assert_allclose(row.fields[1].fields[1], 4.0 * np.eye(3))
