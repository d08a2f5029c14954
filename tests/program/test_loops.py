"""Loops are written down once, with what they read from outside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import DefinitionError, DTypeError, ShapeError, UserError
from tensorad.ir.tensor import Loop, Tensor
from tensorad.ir.text.parser import parse_program


def loop_of(t: Tensor) -> Loop:
    assert isinstance(t.op, Loop)
    return t.op


def test_newton_by_while() -> None:
    a = ta.placeholder((), "float64", name="a")
    root = ta.while_loop(lambda x: abs(x * x - a) > 1e-13 * a, lambda x: (x + a / x) * 0.5, 1.0)
    assert root.dtype == "float64" and root.name == "x"
    for value in (2.0, 9.0, 1.0):
        assert abs(float(ta.interpret(root, {a: value})) - value**0.5) < 1e-12
    f = ta.build(root, [a])
    assert abs(float(f(2.0)) - 2**0.5) < 1e-12


def test_what_does_not_change_is_computed_before_the_loop() -> None:
    w, x = ta.placeholder((3,), name="w"), ta.placeholder((5, 3), name="x")
    made = []

    def body(i: ta.Expr, s: Tensor) -> Tensor:
        made.append(w * 2.0)
        zero = ta.compute((3,), lambda j: 0.0)
        return s + made[-1] * ta.compute((3,), lambda j: x[i, j]) + zero

    total = ta.for_loop(0, 5, body, np.zeros(3, "float32"))
    op = loop_of(total)
    assert set(op.operands[1:]) == {made[-1], x}
    a, b = np.arange(3.0), np.arange(15.0).reshape(5, 3)
    assert np.array_equal(ta.interpret(total, {w: a, x: b}), 2 * a * b.sum(0))


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_collects(reverse: bool) -> None:
    x = ta.placeholder((4, 2), name="x")
    carry, ys = ta.scan(
        lambda c, v: ({"s": c["s"] + v, "n": c["n"] + 1}, (c["s"], v * 2.0)),
        {"s": np.zeros(2, "float32"), "n": 0}, x, reverse=reverse,
    )  # fmt: skip
    a = np.arange(8.0).reshape(4, 2)
    s, n, before, double = ta.interpret([carry["s"], carry["n"], *ys], {x: a})
    sums = a[::-1].cumsum(0)[::-1] if reverse else a.cumsum(0)
    assert np.array_equal(s, a.sum(0)) and n == 4
    assert np.array_equal(before, sums - a) and np.array_equal(double, 2 * a)


def test_scan_of_nothing_needs_a_length() -> None:
    n = ta.placeholder((), "int64", name="n")
    for length in (3, ta.size("m"), n):
        carry, ys = ta.scan(lambda c, _: (c * 2, c), 1, length=length)
        found = ta.interpret([carry, ys], {n: 3}, sizes={"m": 3})
        assert found[0] == 8 and found[1].tolist() == [1, 2, 4]


def test_a_scan_needs_no_carry() -> None:
    x = ta.placeholder((4, 2), name="x")
    carry, y = ta.scan(lambda c, v: (c, v * v), None, x)
    a = np.arange(8.0).reshape(4, 2)
    assert carry is None and np.array_equal(ta.interpret(y, {x: a}), a * a)


def test_one_name_for_scans_of_tensors_and_functions() -> None:
    x = ta.placeholder((4,), name="x")
    _, y = ta.scan(lambda c, v: (c + v, c + v), 0, x)
    a = np.arange(4.0)
    assert np.array_equal(ta.interpret(y, {x: a}), ta.interpret(ta.scan(x, 0), {x: a}))


def test_bounds_may_be_known_to_calls_only() -> None:
    lower, upper = (ta.placeholder((), "int32", name=n) for n in ("lower", "upper"))
    m = ta.size("m")
    x = ta.placeholder((m,), name="x")
    a = np.arange(6.0)
    total = ta.for_loop(lower, upper, lambda i, s: s + i, 0)
    assert ta.interpret(total, {lower: 2, upper: 5}) == 9
    assert ta.interpret(total, {lower: 5, upper: 2}) == 0
    total = ta.for_loop(2, upper, lambda i, s: s + i, 0)
    assert ta.interpret(total, {upper: 5}) == 9
    total = ta.for_loop(1, m, lambda i, s: s + ta.compute((), lambda: x[i]), 0)
    assert ta.interpret(total, {x: a}) == 15 and ta.interpret(total, {x: a[:0]}) == 0
    f = ta.build(total, [x])
    assert f(a.astype("float32")) == 15


def test_loops_in_loops() -> None:
    x = ta.placeholder((5, 3), name="x")
    p = ta.placeholder((), name="p")

    def row(i: ta.Expr, s: Tensor) -> Tensor:
        return ta.for_loop(0, i + 1, lambda j, u: u + ta.compute((), lambda: x[i, 0]) * p, s)

    total = ta.for_loop(0, 5, row, 0)
    a = np.arange(15.0).reshape(5, 3)
    wanted = sum((i + 1) * a[i, 0] * 2 for i in range(5))
    assert total.dtype == "float32" and ta.interpret(total, {x: a, p: 2.0}) == wanted


def test_what_a_scan_collects_may_be_all_that_knows_the_loop_around_it() -> None:
    def f(x: Any) -> Any:
        def step(t: Any, total: Any) -> Any:
            _, ys = ta.scan(lambda s, r: (s, s[t] * r), x, x)
            return total + ys.sum()

        return ta.for_loop(0, 3, step, 0.0)

    x = np.array([1.0, 2.0, 4.0])
    assert ta.function(f)(x) == 49 == ta.interpret(f, x)
    np.testing.assert_allclose(ta.grad(f)(x), 14, rtol=1e-12)


def test_numbers_stay_weak() -> None:
    x = ta.placeholder((), "float64", name="x")
    n = ta.placeholder((), "int32", name="n")
    twice = ta.for_loop(0, 3, lambda i, c: (c[0] + 1, c[1] + c[0], c[2] * x), (0, 0.1, 1))
    assert [t.dtype for t in twice] == ["int64", "float32", "float64"]
    tenth = ta.for_loop(0, 1, lambda i, c: c * x, 0.1)
    assert ta.interpret(tenth, {x: 1.0}) == 0.1
    chosen = ta.for_loop(0, 2, lambda i, c: ta.cond(c < 3, lambda: c + 1, lambda: c * x), 0)
    assert chosen.dtype == "float64"
    assert ta.for_loop(0, 2, lambda i, c: n, 0).dtype == "int32"
    inner = ta.for_loop(0, 2, lambda i, c: ta.for_loop(0, 2, lambda j, d: d * x, c), 1)
    assert inner.dtype == "float64"


def test_numbers_take_dtypes_that_formulas_name() -> None:
    tenth = ta.const(0.1, "float64")
    for step in (
        lambda i, c: c + tenth,
        lambda i, c: c.astype("float64") + 0.1,
        lambda i, c: ta.for_loop(0, 1, lambda j, d: d + tenth, c),
        lambda i, c: ta.cond(c < 9, lambda: c + tenth, lambda: 0.0),
    ):
        total = ta.for_loop(0, 3, step, 0.0)
        assert total.dtype == "float64" and ta.interpret(total, {}) == 0.1 + 0.1 + 0.1
    assert ta.for_loop(0, 3, lambda i, c: (c + 1).astype("int8"), 0).dtype == "int8"
    assert ta.for_loop(0, 3, lambda i, c: c / 2 + c, 1).dtype == "float32"


def test_names_are_those_of_the_user() -> None:
    x = ta.placeholder((4, 2), name="x")
    carry, _ = ta.scan(lambda state, row: ((state[0] + row,), row), (np.zeros(2, "float32"),), x)
    op = loop_of(carry[0])
    assert op.names == ("state[0]",)
    assert [p.name for p in op.blocks[0].params] == ["state[0]", "row"]
    assert op.source.startswith("test_loops.py:")


x = ta.placeholder((2, 3), name="x")
REFUSED = {
    "structure": (
        lambda: ta.while_loop(lambda h: h["a"] < 1, lambda h: {"a": h["a"]}, {"a": 0.0, "b": [x]}),
        DefinitionError,
        "the carry of while_loop at test_loops.py:LINE changes its structure at h['b'][0].\n"
        "  in:            before          after\n"
        "      h['a']     number 0.0      float32 ()\n"
        "      h['b'][0]  float32 (2, 3)  -\n"
        "  hint: return a carry like the one that comes in.",
    ),
    "shape": (
        lambda: ta.for_loop(0, 3, lambda i, h: (h[0] + x, h[1]), (1.0, x)),
        ShapeError,
        "the carry of for_loop at test_loops.py:LINE changes its shape at h[0].\n"
        "  in: before: float32 (), after: float32 (2, 3)\n"
        "  hint: a carry has one shape in all iterations; start with an array of it, such as "
        "zeros.",
    ),
    "another shape": (
        lambda: ta.scan(lambda h, v: (x, v), np.zeros(3, "float32"), x),
        ShapeError,
        "the carry of scan at test_loops.py:LINE changes its shape at h.\n"
        "  in: before: float32 (3,), after: float32 (2, 3)\n"
        "  hint: a carry has one shape in all iterations.",
    ),
    "dtype": (
        lambda: ta.for_loop(0, 3, lambda i, h: h * 0.5, np.int64(3)),
        DTypeError,
        "the carry of for_loop at test_loops.py:LINE changes its dtype at h.\n"
        "  in: before: int64 (), after: float32 ()\n"
        "  hint: convert the result with .astype('int64'), or start with float32.",
    ),
    "condition": (
        lambda: ta.while_loop(lambda h: h, lambda h: h + 1, 0),
        DTypeError,
        "the condition of while_loop at test_loops.py:LINE must be a 0-d bool, got int64 ().\n"
        "  hint: return a comparison of 0-d tensors, e.g. x < 10.",
    ),
    "conditions": (
        lambda: ta.while_loop(lambda h: h < 9, lambda h: h + 1, x),
        DTypeError,
        "the condition of while_loop at test_loops.py:LINE must be a 0-d bool, got bool (2, 3).\n"
        "  hint: return a comparison of 0-d tensors, e.g. x < 10.",
    ),
    "no pair": (
        lambda: ta.scan(lambda h, v: h + v, np.zeros(3, "float32"), x),
        DefinitionError,
        "the function of scan at test_loops.py:LINE must return a pair (carry, y), got a Tensor.\n"
        "  hint: return (carry, None) if there is nothing to collect.",
    ),
    "extents": (
        lambda: ta.scan(lambda h, v: (h, None), 0, {"a": x, "b": np.zeros(5)}),
        ShapeError,
        "leading extents of scan at test_loops.py:LINE differ: 2 and 5.\n"
        "  in: xs['a']: (2, 3), xs['b']: (5,)\n"
        "  hint: all leaves of xs are gone through together.",
    ),
    "no axis": (
        lambda: ta.scan(lambda h, v: (h, None), 0, (x, 3.0)),
        ShapeError,
        "xs[1] of scan at test_loops.py:LINE has no axis to go along: its shape is ().\n"
        "  hint: pass what stays the same from outside: the function may use any tensor.",
    ),
    "no length": (
        lambda: ta.scan(lambda h, v: (h, None), 0),
        DefinitionError,
        "scan at test_loops.py:LINE has neither xs nor a length.\n"
        "  hint: pass length=10, say how often f runs.",
    ),
    "length": (
        lambda: ta.scan(lambda h, v: (h, None), 0, x, length=3),
        ShapeError,
        "scan at test_loops.py:LINE has length 3, but xs have 2 elements.\n"
        "  in: xs: (2, 3)\n"
        "  hint: leave out the length.",
    ),
    "bound": (
        lambda: ta.for_loop(0, 2.5, lambda i, h: h, 0),
        DTypeError,
        "upper of for_loop at test_loops.py:LINE is no whole number: 2.5.\n"
        "  hint: pass an integer, a size, or a 0-d integer tensor.",
    ),
    "many bounds": (
        lambda: ta.for_loop(0, x, lambda i, h: h, 0),
        DTypeError,
        "upper of for_loop at test_loops.py:LINE is no whole number: float32 (2, 3).\n"
        "  hint: pass an integer, a size, or a 0-d integer tensor.",
    ),
    "no tree": (
        lambda: ta.for_loop(0, 2, lambda i, h: h, [object()]),
        DefinitionError,
        "h[0] is of class object, which is neither an array nor a tree of arrays.\n"
        "  hint: pass arrays, numbers, tensors, and dicts, lists, tuples or dataclasses of them; "
        "tell how another class is taken apart with ta.register_tree.",
    ),
    "no tensor": (
        lambda: ta.for_loop(0, 2, lambda i, h: h, [np.zeros(2, complex)]),
        DTypeError,
        "h[0] has dtype complex128, which tensors cannot have.\n"
        "  hint: convert it to bool, an integer, float32 or float64; a string or a function is "
        "passed as it is.",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_loops_that_are_refused(case: str) -> None:
    bad, kind, text = REFUSED[case]
    with pytest.raises(UserError) as caught:
        bad()
    line = bad.__code__.co_firstlineno
    assert type(caught.value) is kind
    assert str(caught.value) == text.replace("LINE", str(line))


def test_a_function_that_uses_a_loops_counter_is_a_part_of_the_loop() -> None:
    """A text has no name for the counter of one function in another."""

    def f(x: Any) -> Any:
        def step(t: Any, s: Any) -> Any:
            @ta.function
            def moved(v: Any) -> Any:
                return ta.sin(v.at[t % 3].add(x[t])) * (t + 1)

            return moved(s) + moved(s * s)

        return ta.for_loop(0, 4, step, np.zeros(3)).sum()

    x, v = np.array([0.1, 0.2, -0.3, 0.4]), np.array([1.0, -1.0, 2.0, 0.5])
    p = ta.function(f).trace(x)
    again = parse_program(str(p))
    assert list(again.functions) == [again["f"]] and str(again) == str(p)

    def plain(x: Any) -> Any:
        s = np.zeros(3)
        for t in range(4):
            row = np.eye(3)[t % 3] * x[t]
            s = (np.sin(s + row) + np.sin(s * s + row)) * (t + 1)
        return s.sum()

    h = 1e-6
    assert abs(ta.function(f)(x) - plain(x)) < 1e-12
    slope = (plain(x + h * v) - plain(x - h * v)) / (2 * h)
    assert abs(ta.grad(f)(x) @ v - slope) < 1e-6 * abs(slope)


def test_a_loop_between_sizes_that_are_in_the_other_order_does_nothing() -> None:
    n, m = ta.size("n"), ta.size("m")
    p, q = ta.placeholder((n,), "float64", name="p"), ta.placeholder((m,), "float64", name="q")
    s = ta.placeholder((), "float64", name="s")
    y = ta.for_loop(n, m, lambda i, c: c * c + q[i], s)
    f = ta.build([y, *ta.vjp(y, [s, q], 1.0)], [p, q, s])
    value, ds, dq = f(np.ones(2), np.array([9.0, 9.0, 1.0, 2.0]), 3.0)
    assert (value, ds, dq.tolist()) == (102.0, 120.0, [0.0, 0.0, 20.0, 1.0])
    value, ds, dq = f(np.ones(5), np.ones(2), 3.0)
    assert (value, ds, dq.tolist()) == (3.0, 1.0, [0.0, 0.0])
