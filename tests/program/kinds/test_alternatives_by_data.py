"""Alternatives with functions in them, chosen by data: matched, kept, carried, differentiated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import DefinitionError, DTypeError

F64 = np.float64
H = 1e-5
Act: Any = ta.variant(
    "Act",
    Plain={},
    Scaled={"f": ta.Fn, "k": "float64"},
    Two={"first": "Act", "rest": "Act", "w": "float64[2]"},
)
Other: Any = ta.variant("Other", Nothing={}, Some={"f": ta.Fn})


def shallow(a: Any, x: Any) -> Any:
    return ta.match(a, lambda: x * x, lambda f, k: f(x) * k, lambda first, rest, w: x * w[0])


@ta.function
def run(a: Any, x: Any) -> Any:
    def both(first: Any, rest: Any, w: Any) -> Any:
        return run(rest, run(first, x)) * w[0] + w[1]

    return ta.match(a, lambda: x * x, lambda f, k: f(x) * k, both)


def thin(x: Any, c: Any) -> Any:
    a = ta.cond(c > 0, lambda: Act.Scaled(lambda t: ta.sin(t) * x, 2.0), lambda: Act.Plain())
    return shallow(a, x)


def plain_thin(x: float, c: float) -> float:
    return float(np.sin(x) * x * 2 if c > 0 else x * x)


def captured_twice(x: Any, c: Any) -> Any:
    """Arms capture what the functions that they apply capture."""
    s = x * 3.0
    a = ta.cond(
        c > 0,
        lambda: Act.Scaled(lambda t: ta.sin(t) * s, s),
        lambda: Act.Scaled(lambda t: t * t, x),
    )
    return ta.match(a, lambda: x, lambda f, k: f(s) * k + s, lambda first, rest, w: x)


def plain_captured_twice(x: float, c: float) -> float:
    s = 3 * x
    return float(np.sin(s) * s * s + s if c > 0 else s * s * x + s)


def nested(x: Any, c: Any) -> Any:
    a = ta.cond(
        c > 0,
        lambda: Act.Two(Act.Scaled(ta.sin, 2.0), Act.Plain(), np.array([2.0, 1.0])),
        lambda: Act.Scaled(lambda t: t * x, x),
    )
    return run(a, x)


def plain_nested(x: float, c: float) -> float:
    return float(2 * (2 * np.sin(x)) ** 2 + 1 if c > 0 else x**3)


def referred(x: Any, c: Any) -> Any:
    r = ta.ref(Act.Plain())
    ta.cond(c > 0, lambda: r.set(Act.Scaled(lambda t: ta.sin(t) * x, 2.0)), lambda: None)
    return shallow(r.get(), x)


def carried(x: Any, c: Any) -> Any:
    """What is carried captures what the arm of the next iteration computes again."""

    def step(i: Any, a: Any) -> Any:
        s = shallow(a, x)
        return ta.cond(s > c, lambda: Act.Scaled(lambda t: t * s, s), lambda: Act.Plain())

    return shallow(ta.for_loop(0, 4, step, Act.Plain()), x)


def plain_carried(x: float, c: float) -> float:
    s, is_scaled = 0.0, False
    for _ in range(4):
        s = x * s * s if is_scaled else x * x
        is_scaled = s > c
    return x * s * s if is_scaled else x * x


def of_its_own_kind(x: Any, c: Any) -> Any:
    """A function matches a value of the type that it is in: recursion."""

    def step(i: Any, a: Any) -> Any:
        return Act.Scaled(lambda t: t * shallow(a, x), c)

    return shallow(ta.for_loop(0, 3, step, Act.Plain()), x)


def plain_of_its_own_kind(x: float, c: float) -> float:
    return x**2 * (x * c) ** 3


def grown(x: Any, c: Any) -> Any:
    """A list of functions that a loop makes longer, taken apart by recursion."""

    def step(i: Any, a: Any) -> Any:
        scaled = Act.Scaled(lambda t: ta.sin(t) * x, c)
        return Act.Two(a, scaled, ta.topi.stack([x, c]))

    return run(ta.for_loop(0, 3, step, Act.Plain()), x)


def plain_grown(x: float, c: float) -> float:
    v = x * x
    for _ in range(3):
        v = float(np.sin(v) * x * c * x + c)
    return v


def left_by_a_loop(x: Any, c: Any) -> Any:
    r = ta.ref(Act.Scaled(ta.sin, 1.0))

    def step(i: Any, s: Any) -> Any:
        y = shallow(r.get(), s)
        kept = Act.Scaled(lambda t: t * y + x, 0.5)
        ta.cond(y > c, lambda: r.set(Act.Plain()), lambda: r.set(kept))
        return y

    return ta.for_loop(0, 3, step, x) + shallow(r.get(), x)


def plain_left_by_a_loop(x: float, c: float) -> float:
    f: Callable[[float], float] = lambda t: float(np.sin(t))  # noqa: E731
    s = x
    for _ in range(3):
        s = f(s)
        f = (lambda t: t * t) if s > c else (lambda t, y=s: (t * y + x) * 0.5)
    return s + f(x)


@ta.function
def built(n: Any, a: Any, x: Any) -> Any:
    def more() -> Any:
        return built(n - 1, Act.Scaled(lambda t: t * shallow(a, x), 0.5), x)

    return ta.cond(n < 1, lambda: a, more)


def recursive(x: Any, c: Any) -> Any:
    return shallow(built((c * 2.0).astype("int64"), ta.fn(Act.Plain()), x), x)


def plain_recursive(x: float, c: float) -> float:
    return x**2 * (x * 0.5) ** max(int(2 * c), 0)


CASES: dict[str, tuple[Any, Callable[[float, float], float]]] = {
    "thin": (thin, plain_thin),
    "captured_twice": (captured_twice, plain_captured_twice),
    "nested": (nested, plain_nested),
    "referred": (referred, plain_thin),
    "carried": (carried, plain_carried),
    "of_its_own_kind": (of_its_own_kind, plain_of_its_own_kind),
    "grown": (grown, plain_grown),
    "left_by_a_loop": (left_by_a_loop, plain_left_by_a_loop),
    "recursive": (recursive, plain_recursive),
}
AT = [(0.7, 1.6), (1.3, 0.9), (0.7, -0.4)]


def slope(plain: Any, x: float, c: float) -> float:
    return float((plain(x + H, c) - plain(x - H, c)) / (2 * H))


def check(name: str, at: list[tuple[float, float]]) -> None:
    f, plain = CASES[name]
    whole = ta.function(f)
    for x, c in at:
        given, want = (F64(x), F64(c)), plain(x, c)
        assert float(whole(*given)) == pytest.approx(want)
        assert float(ta.interpret(whole, *given)) == pytest.approx(want)
        by_x = float(ta.grad(whole)(*given))
        assert by_x == pytest.approx(slope(plain, x, c), rel=1e-6)
        assert float(ta.jvp(whole, given, (1.0, 0.0))[1]) == pytest.approx(by_x)


def test_data_choose_an_alternative_with_a_function() -> None:
    check("thin", AT)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in CASES if n != "thin"])
def test_values_gradients_and_tangents(name: str) -> None:
    check(name, AT)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CASES))
def test_second_derivatives(name: str) -> None:
    first = ta.grad(CASES[name][0])
    for x, c in AT:
        given, step = (F64(x), F64(c)), H
        ahead, behind = (float(first(F64(x + d), F64(c))) for d in (step, -step))
        want = (ahead - behind) / (2 * step)
        twice = float(ta.grad(first)(*given))
        assert twice == pytest.approx(want, rel=1e-6, abs=1e-8)
        pushed = ta.jvp(first, given, (1.0, 0.0))[1]
        assert float(pushed) == pytest.approx(twice)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CASES))
def test_many_examples(name: str) -> None:
    f, plain = CASES[name]
    xs, cs = np.array(AT).T
    rows = ta.vmap(ta.function(f))(xs, cs)
    assert np.allclose(rows, [plain(*one) for one in AT])
    slopes = ta.vmap(ta.grad(f))(xs, cs)
    assert np.allclose(slopes, [slope(plain, *one) for one in AT], rtol=1e-6)


def test_gradients_by_a_value_that_data_may_leave_out() -> None:
    def f(a: Any, c: Any) -> Any:
        return run(ta.cond(c > 0, lambda: a, lambda: Act.Plain()), F64(0.7))

    given = Act.Scaled(ta.sin, F64(2.0))
    slopes = ta.grad(f)
    assert float(slopes(given, F64(1.0)).k) == pytest.approx(np.sin(0.7))
    assert float(slopes(given, F64(-1.0)).k) == 0.0


def test_values_of_one_alternative_stay_known() -> None:
    """Where the alternatives are the same, their parts are chosen, and no value."""

    def f(x: Any, c: Any) -> Any:
        a = ta.cond(c > 0, lambda: Act.Scaled(ta.sin, x), lambda: Act.Scaled(ta.sin, 2.0))
        assert isinstance(a, Act.Scaled) and a.f is ta.sin
        return shallow(a, x)

    assert float(ta.function(f)(F64(0.7), F64(1.0))) == pytest.approx(0.7 * np.sin(0.7))


def test_a_value_is_one_of_its_type_wherever_it_is_met() -> None:
    """What a loop starts with is one side of a match, though each round finds it again."""
    sides: list[str] = []

    def f(x: Any, c: Any) -> Any:
        a = ta.for_loop(
            0,
            3,
            lambda i, a: ta.cond(c > 0, lambda: a, lambda: Act.Plain()),
            Act.Scaled(ta.sin, 1.0),
        )

        def plain() -> Any:
            sides.append("Plain")
            return x * x

        def scaled(f: Any, k: Any) -> Any:
            sides.append("Scaled")
            return f(x) * k

        return ta.match(a, plain, scaled, lambda first, rest, w: x)

    assert float(ta.function(f)(F64(0.7), F64(1.0))) == pytest.approx(np.sin(0.7))
    assert sorted(sides) == ["Plain", "Scaled"]


def chosen(c: Any) -> Any:
    return ta.cond(c > 0, lambda: Act.Scaled(ta.sin, 2.0), lambda: Act.Plain())


def other(c: Any) -> Any:
    return ta.cond(c > 0, lambda: Other.Some(ta.sin), lambda: Other.Nothing())


def one_of_two(c: Any) -> Any:
    return ta.cond(c > 0, lambda: ta.sin, lambda: ta.cos)


def left_in_a_reference(c: Any) -> Any:
    r = ta.ref(chosen(c))
    ta.cond(c > 0, lambda: r.set(other(c)), lambda: None)
    return shallow(r.get(), c)


BAD: dict[str, tuple[Any, type[Exception], str]] = {
    "two types": (
        lambda c: ta.cond(c > 0, lambda: Act.Plain(), lambda: Other.Some(ta.sin)),
        DefinitionError,
        "return different structures: they differ at cond",
    ),
    "a value of another type": (
        lambda c: ta.cond(c > 0, lambda: chosen(c), lambda: Other.Some(ta.sin)),
        DefinitionError,
        "return different structures: they differ at cond",
    ),
    "a function": (
        lambda c: ta.cond(c > 0, lambda: Act.Scaled(ta.sin, 1.0), lambda: ta.sin),
        DefinitionError,
        "return different structures: they differ at cond",
    ),
    "two values": (
        lambda c: ta.cond(c > 0, lambda: chosen(c), lambda: other(c)),
        DTypeError,
        "cond is a value of Act in one place, a value of Other in another",
    ),
    "a value and a function": (
        lambda c: ta.cond(c > 0, lambda: chosen(c), lambda: one_of_two(c)),
        DTypeError,
        "cond is a value of Act in one place, a function in another",
    ),
    "a carry of two types": (
        lambda c: ta.for_loop(0, 2, lambda i, a: other(c), chosen(c)),
        DTypeError,
        "is a value of Other in one place, a value of Act in another",
    ),
    "a reference to two types": (
        lambda c: left_in_a_reference(c),
        DTypeError,
        "is a value of Other in one place, a value of Act in another",
    ),
    "returned": (
        chosen,
        DefinitionError,
        "is a value of Act that data choose, with functions in it, which no call returns",
    ),
    "an array": (
        lambda c: chosen(c) + 1.0,
        DTypeError,
        "cond is a value of Act that data choose, no array",
    ),
    "called": (
        lambda c: chosen(c)(1.0),
        DTypeError,
        "cond is a value of Act that data choose, no array",
    ),
    "in the place of a function": (
        lambda c: shallow(Act.Scaled(chosen(c), 1.0), c),
        DTypeError,
        "the field f of Act.Scaled must be a function",
    ),
    "an arm too few": (
        lambda c: ta.match(chosen(c), {Act.Plain: lambda: c}),
        DefinitionError,
        "has no function for Scaled, Two",
    ),
    "results differ": (
        lambda c: ta.match(chosen(c), lambda: c, lambda f, k: (c, k), lambda a, b, w: c),
        DefinitionError,
        "return different structures: they differ at match",
    ),
}


@pytest.mark.parametrize("name", list(BAD))
def test_mistakes_are_named(name: str) -> None:
    f, kind, text = BAD[name]
    with pytest.raises(kind, match=text):
        ta.function(f)(F64(1.0))


def test_a_carry_that_becomes_another_type_is_refused() -> None:
    def f(c: Any) -> Any:
        return ta.for_loop(0, 2, lambda i, a: Other.Nothing(), chosen(c))

    with pytest.raises(DefinitionError, match="changes its structure at"):
        ta.function(f)(F64(1.0))
