"""References: programs that write them beside the same ones without."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import DefinitionError
from tests.support.programs.with_references import check_same
from tests.support.refusals import placed

X = np.array([0.3, -0.7, 1.2, 0.5])


def test_straight_line() -> None:
    def with_refs(x: Any) -> Any:
        r = ta.ref(x, "r")
        r.set(r.get() * 2.0)
        r.add(x)
        r.mul(ta.topi.sin(r.get()))
        return r.get().sum()

    def without(x: Any) -> Any:
        r = x * 2.0 + x
        return (r * ta.topi.sin(r)).sum()

    check_same(with_refs, without, X, second=True)


def test_no_reference_is_left_in_the_program() -> None:
    def f(x: Any) -> Any:
        r = ta.ref((x, x), "r")
        r.set((r.get()[1] * 2.0, x))
        r.set((r.get()[0], r.get()[0] + 1.0))
        return r.get()[0]

    text = str(ta.function(f).trace(X))
    assert text == str(ta.function(lambda x: x * 2.0).trace(X)).replace("`<lambda>`", "f")


def test_under_a_branch() -> None:
    def with_refs(x: Any) -> Any:
        r = ta.ref(x, "r")
        untouched = ta.ref(x * 3.0, "other")
        ta.cond(x[0] > 0, lambda: r.mul(r.get()), lambda: None)
        ta.cond(x[1] > 0, lambda: r.set(x), lambda: r.set(ta.topi.sin(r.get())))
        return (r.get() * untouched.get()).sum()

    def without(x: Any) -> Any:
        r = ta.cond(x[0] > 0, lambda: x * x, lambda: x)
        r = ta.cond(x[1] > 0, lambda: x, lambda: ta.topi.sin(r))
        return (r * (x * 3.0)).sum()

    for sign in (1, -1):
        check_same(with_refs, without, sign * X, second=sign > 0)


def test_in_one_arm_of_a_switch() -> None:
    def with_refs(x: Any, k: Any) -> Any:
        r = ta.ref({"a": x, "b": x.sum()}, "r")

        def second() -> Any:
            held = r.get()
            r.set({"a": held["a"] * held["b"], "b": held["b"]})
            return held["b"]

        y = ta.switch(k, [lambda: 0.0, second, lambda: x[0]])
        return r.get()["a"].sum() + y

    f = ta.function(with_refs)
    found = [f(X, k) for k in range(3)]
    np.testing.assert_allclose(found, [X.sum(), X.sum() ** 2 + X.sum(), X.sum() + X[0]])
    branch = str(f.trace(X, 0))
    assert "b : " not in branch.split("branch")[1], "what no arm writes is no result"


def test_in_a_for_loop() -> None:
    def with_refs(x: Any) -> Any:
        total = ta.ref(0.0, "total")
        count = ta.ref(0, "count")

        def body(i: Any, product: Any) -> Any:
            total.add(x[i] * product)
            count.add(1)
            return product * (1.0 + total.get())

        last = ta.for_loop(0, 4, body, 1.0)
        return total.get() * last * count.get()

    def without(x: Any) -> Any:
        def body(i: Any, carry: Any) -> Any:
            product, total, count = carry
            total = total + x[i] * product
            return product * (1.0 + total), total, count + 1

        last, total, count = ta.for_loop(0, 4, body, (1.0, 0.0, 0))
        return total * last * count

    check_same(with_refs, without, X)


def test_in_a_while_loop_whose_condition_reads_it() -> None:
    def with_refs(a: Any) -> Any:
        r = ta.ref(1.0, "r")

        def body(n: Any) -> Any:
            r.set(0.5 * (r.get() + a / r.get()))
            return n + 1

        ta.while_loop(lambda n: ta.abs(r.get() ** 2 - a) > 1e-12, body, 0)
        return r.get()

    def without(a: Any) -> Any:
        return ta.while_loop(lambda x: ta.abs(x**2 - a) > 1e-12, lambda x: 0.5 * (x + a / x), 1.0)

    found = check_same(with_refs, without, 2.0, second=True)
    assert abs(found - 2.0**0.5) < 1e-12


def test_in_a_scan_that_collects() -> None:
    def with_refs(x: Any) -> Any:
        state = ta.ref(x[0], "state")

        def step(carry: Any, xi: Any) -> Any:
            before = state.get()
            state.set(ta.topi.tanh(before + xi))
            return carry + before, before * xi

        last, ys = ta.scan(step, 0.0, x)
        return last + ys.sum() + state.get()

    def without(x: Any) -> Any:
        def step(carry: Any, xi: Any) -> Any:
            total, before = carry
            return (total + before, ta.topi.tanh(before + xi)), before * xi

        (last, state), ys = ta.scan(step, (0.0, x[0]), x)
        return last + ys.sum() + state

    check_same(with_refs, without, X)


def test_a_branch_inside_of_a_loop() -> None:
    def with_refs(x: Any) -> Any:
        best = ta.ref(x[0], "best")
        changes = ta.ref(0, "changes")

        def better(xi: Any) -> None:
            best.set(xi * best.get())
            changes.add(1)

        def step(c: Any, xi: Any) -> Any:
            ta.cond(xi > 0, lambda: better(xi), lambda: None)
            return c, None

        ta.scan(step, None, x)
        return best.get() * changes.get()

    def without(x: Any) -> Any:
        def step(c: Any, xi: Any) -> Any:
            best, changes = c
            return ta.cond(xi > 0, lambda: (xi * best, changes + 1), lambda: (best, changes)), None

        (best, changes), _ = ta.scan(step, (x[0], 0), x)
        return best * changes

    check_same(with_refs, without, X, second=True)


def test_a_loop_inside_of_a_branch_and_a_loop() -> None:
    def with_refs(x: Any) -> Any:
        r = ta.ref(x, "r")

        def inner() -> None:
            ta.for_loop(0, 2, lambda i, c: (r.mul(x), c)[1], None)

        def outer(i: Any, c: Any) -> Any:
            ta.cond(r.get().sum() > 1.0, lambda: r.mul(0.5), inner)
            return c

        ta.for_loop(0, 3, outer, None)
        return (r.get() * x).sum()

    def without(x: Any) -> Any:
        def outer(i: Any, r: Any) -> Any:
            return ta.cond(
                r.sum() > 1.0,
                lambda: r * 0.5,
                lambda: ta.for_loop(0, 2, lambda i, s: s * x, r),
            )

        return (ta.for_loop(0, 3, outer, x) * x).sum()

    check_same(with_refs, without, X)


def test_in_a_closure_and_aliased() -> None:
    def with_refs(x: Any) -> Any:
        r = ta.ref(x, "r")
        pair = (r, {"same": r})

        def grow(given: Any) -> Any:
            given[1]["same"].mul(2.0)
            return lambda: given[0].add(x)

        again = grow(pair)
        again()
        again()
        return (r.get() ** 2).sum()

    check_same(with_refs, lambda x: ((x * 2.0 + x + x) ** 2).sum(), X)


def test_a_reference_of_a_reference() -> None:
    def with_refs(x: Any) -> Any:
        a, b = ta.ref(x, "a"), ta.ref(x * 2.0, "b")
        pointer = ta.ref(a, "pointer")
        pointer.get().mul(x)
        pointer.set(b)
        ta.cond(x[0] > 0, lambda: pointer.get().set(x), lambda: None)
        ta.for_loop(0, 2, lambda i, c: (pointer.get().add(a.get()), c)[1], None)
        return (a.get() * b.get()).sum()

    def without(x: Any) -> Any:
        a = x * x
        b = ta.cond(x[0] > 0, lambda: x, lambda: x * 2.0)
        return (a * (b + a + a)).sum()

    for sign in (1, -1):
        check_same(with_refs, without, sign * X)


def test_functions_in_references() -> None:
    def with_refs(x: Any) -> Any:
        f = ta.ref(lambda v: v * x, "f")
        before = f.get()
        f.set(lambda v: before(before(v)))
        ta.for_loop(0, 2, lambda i, c: c, 0)
        return f.get()(x).sum()

    check_same(with_refs, lambda x: (x * x * x).sum(), X)


@ta.function
def scaled(r: Any, x: Any) -> Any:
    r.mul(x)
    return r.get().sum()


def test_in_functions_that_are_called() -> None:
    def with_refs(x: Any) -> Any:
        r = ta.ref(x, "r")
        first = scaled(r, x)
        second = scaled(r, x)
        ta.for_loop(0, 2, lambda i, c: (scaled(r, 0.5), c)[1], None)
        return first * second + r.get().sum()

    def without(x: Any) -> Any:
        return (x * x).sum() * (x * x * x).sum() + (x * x * x * 0.5 * 0.5).sum()

    check_same(with_refs, without, X)


def test_functions_with_their_own_references_stay_calls() -> None:
    @ta.function
    def power(x: Any) -> Any:
        r = ta.ref(x, "r")
        ta.for_loop(0, 3, lambda i, c: (r.mul(x), c)[1], None)
        return r.get()

    text = str(ta.function(lambda x: power(power(x)).sum()).trace(X))
    assert text.count("power(") == 3

    def without(x: Any) -> Any:
        return ta.for_loop(0, 3, lambda i, c: c * x, x)

    check_same(lambda x: power(power(x)).sum(), lambda x: without(without(x)).sum(), X)


def test_calls_that_write_are_written_down_a_bounded_number_of_times() -> None:
    calls = []

    def nested(depth: int, own: Any = None) -> Any:
        if depth == 0:
            return lambda r: (calls.append(1), (r if own is None else own).mul(2.0))[1]
        inner = ta.function(nested(depth - 1, own))
        return lambda r: inner(r)

    def by_argument(x: Any) -> Any:
        r = ta.ref(x, "r")
        ta.function(nested(12))(r)
        return r.get()

    def by_closure(x: Any) -> Any:
        r = ta.ref(x, "r")
        ta.function(nested(12, r))(x)
        return r.get()

    np.testing.assert_array_equal(ta.function(by_argument)(X), 2 * X)
    assert len(calls) == 1
    np.testing.assert_array_equal(ta.function(by_closure)(X), 2 * X)
    assert len(calls) <= 1 + 14


def test_calls_keep_no_references() -> None:
    made = []

    def whole(x: Any) -> Any:
        r = ta.ref(x, "r")
        made.append(weakref.ref(r))
        return scaled(r, x)

    ta.function(whole)(X)
    gc.collect()
    assert made[0]() is None


def test_inside_of_functions_that_are_differentiated() -> None:
    def with_refs(x: Any) -> Any:
        r = ta.ref(x[1], "r")

        def inner(y: Any) -> Any:
            r.mul(y)  # reads what depends on x, writes what depends on y
            return r.get() * y

        slope = ta.grad(inner)(x[0])
        return slope * r.get()

    # inner is c y^2 with c = x1, its slope 2 c y; r holds c y after it
    check_same(with_refs, lambda x: 2 * x[1] * x[0] * (x[1] * x[0]), X, second=True)


FORMS = ["grad", "value_and_grad", "vjp", "jvp", "linearize", "jacobian", "jacfwd", "jacrev"]


@pytest.mark.parametrize("form", FORMS)
def test_the_run_of_a_derived_function_writes_once(form: str) -> None:
    def with_refs(x: Any) -> Any:
        count = ta.ref(0, "count")
        held = ta.ref(x, "held")

        def inner(y: Any) -> Any:
            count.add(1)
            held.set(y * y)
            return (held.get() * y).sum()

        if form == "vjp":
            _, pull = ta.vjp(inner, x)
            d = pull(1.0)[0] + pull(2.0)[0] * 0.0
        elif form == "jvp":
            d = ta.jvp(inner, (x,), (x * 0.0 + 1.0,))[1]
        elif form == "linearize":
            _, push = ta.linearize(inner, x)
            d = push(x * 0.0 + 1.0) + push(x) * 0.0
        else:
            d = getattr(ta, form)(inner)(x)
            d = d[1] if form == "value_and_grad" else d
        return count.get(), held.get(), d.sum()

    n, held, d = ta.function(with_refs)(X)
    assert n == 1
    np.testing.assert_allclose(held, X * X)
    np.testing.assert_allclose(d, (3 * X * X).sum())


def test_outside_of_functions() -> None:
    r = ta.ref({"w": np.zeros(3), "n": 0}, "r")
    given = np.arange(3.0)
    r.set({"w": given, "n": 2})
    given[0] = 7
    np.testing.assert_array_equal(r.get()["w"], np.arange(3.0))
    assert r.get()["n"] == 2
    r.add({"w": 1.0 * np.ones(3), "n": 1})
    np.testing.assert_array_equal(r.get()["w"], np.arange(1.0, 4.0))
    with pytest.raises(ValueError, match="read-only"):
        r.get()["w"][0] = 1
    step = ta.function(lambda w: w * 2.0)
    r.set({"w": step(r.get()["w"]), "n": 0})
    np.testing.assert_array_equal(r.get()["w"], 2 * np.arange(1.0, 4.0))


def test_tensors_outside_of_functions() -> None:
    x = ta.placeholder((3,), "float64", "x")
    r = ta.ref(x, "r")
    r.mul(x)
    ta.cond(True, lambda: r.mul(x), lambda: None)
    (g,) = ta.vjp(r.get().sum(), [x])
    values = np.arange(3.0)
    np.testing.assert_allclose(ta.evaluate(g, {x: values}), 3 * values**2)


def test_numbers_take_the_dtype_of_what_they_meet() -> None:
    def f(x: Any) -> Any:
        r = ta.ref(0, "r")
        ta.cond(x[0] > 0, lambda: r.set(1), lambda: None)
        before = r.get()
        r.add(x[0])
        ta.for_loop(0, 3, lambda i, c: (r.add(x[i]), c)[1], None)
        return before, r.get()

    found = ta.function(f)(X)
    assert [v.dtype for v in found] == [np.int64, np.float64]
    np.testing.assert_allclose(found[1], X[:3].sum() + X[0] + 1)


def test_in_functions_of_examples() -> None:
    scale = np.float64(2)

    def each(x: Any) -> Any:
        r = ta.ref(x, "r")
        ta.cond(x[0] > 0, lambda: r.at[1:].mul(x[0]), lambda: None)
        ta.for_loop(0, 4, lambda i, c: (r.at[i].add(x[i]), c)[1], None)
        return r.get()

    rows = np.stack([X, -X, 2 * X])
    expected = np.stack([ta.function(each)(x) for x in rows])
    np.testing.assert_allclose(ta.vmap(each)(rows), expected)

    def reads(rows: Any) -> Any:
        factor = ta.ref(scale, "factor")
        return ta.vmap(lambda x: x * factor.get())(rows)

    np.testing.assert_allclose(ta.function(reads)(rows), 2 * rows)


def test_functions_of_examples_write_nothing() -> None:
    def writes(rows: Any) -> Any:
        total = ta.ref(np.zeros(4), "total")

        def each(x: Any) -> Any:
            total.add(x)
            return x

        return ta.vmap(each)(rows)

    with pytest.raises(DefinitionError) as caught:
        ta.function(writes)(np.ones((2, 4)))
    assert placed(caught.value) == (
        "vmap of each writes the reference total made at HERE.\n"
        "  hint: it is called for its result alone: write references before or after."
    )
    with pytest.raises(DefinitionError, match="is a part of the result of vmap of <lambda>"):
        ta.vmap(lambda x: ta.ref(x))(np.ones((2, 4)))
