"""Demands about references: mutability for free (S004-10), a store that is known (S004-25), writes
that are not lost (S004-29, W-09), reverse mode (T-07), views as lenses (S002-25)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import DefinitionError
from tests.program.references.test_lenses import check_laws
from tests.support.programs.with_references import check_same

X = np.array([0.3, -0.7, 1.2])
Program = Callable[[Any], Any]


def _branch(x: Any) -> Any:
    r = ta.ref(x)
    ta.cond(x[0] > 0, lambda: r.mul(x), lambda: r.set(ta.topi.sin(x)))
    return (r.get() * x).sum()


def _loop(x: Any) -> Any:
    r = ta.ref(x)
    ta.for_loop(0, 3, lambda i, c: (r.set(r.get() * x[i] + x), c)[1], None)
    return r.get().sum()


def _closure(x: Any) -> Any:
    r = ta.ref(x)

    def change(factor: Any) -> Callable[[], None]:
        return lambda: r.mul(factor)

    change(x)()
    change(2.0)()
    return r.get().sum()


def _alias(x: Any) -> Any:
    a = ta.ref(x)
    b = a
    b.mul(x)
    a.add(b.get())
    return (a.get() * b.get()).sum()


def _tuple(x: Any) -> Any:
    pair = (ta.ref(x), {"other": ta.ref(x * 2.0)})

    def swap(pair: Any) -> None:
        first, second = pair[0].get(), pair[1]["other"].get()
        pair[0].set(second)
        pair[1]["other"].set(first * second)

    swap(pair)
    swap(pair)
    return (pair[0].get() - pair[1]["other"].get()).sum()


def _of_references(x: Any) -> Any:
    inner, other = ta.ref(x), ta.ref(x * 3.0)
    outer = ta.ref(inner)
    outer.get().mul(x)
    outer.set(other)
    outer.get().mul(inner.get())
    return other.get().sum()


def _loop_without(x: Any) -> Any:
    return ta.for_loop(0, 3, lambda i, r: r * x[i] + x, x).sum()


MUTABLE: dict[str, tuple[Program, Program]] = {
    "branch": (
        _branch,
        lambda x: (ta.cond(x[0] > 0, lambda: x * x, lambda: ta.topi.sin(x)) * x).sum(),
    ),
    "loop": (_loop, _loop_without),
    "closure": (_closure, lambda x: (x * x * 2.0).sum()),
    "alias": (_alias, lambda x: ((x * x + x * x) * (x * x + x * x)).sum()),
    "tuple": (_tuple, lambda x: (x * (x * 2.0) - x * 2.0 * (x * (x * 2.0))).sum()),
    "references": (_of_references, lambda x: (x * 3.0 * (x * x)).sum()),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", MUTABLE)
def test_s004_10_writes_do_not_disturb_gradients(name: str) -> None:
    check_same(*MUTABLE[name], X, second=name in ("branch", "loop", "references"))


def bindings(f: Program) -> list[str]:
    """The statements of a function's program."""
    text = str(ta.function(f).trace(X))
    return [line.strip() for line in text.strip().splitlines()[1:]]


def test_s004_25_what_is_written_is_known() -> None:
    def f(x: Any) -> Any:
        r = ta.ref(x)
        r.set(x * 2.0)
        return r.get()

    assert bindings(f) == ["mul : float64[3] = [i] x[i]*2.0", "return mul"]


def test_s004_25_after_a_branch_what_both_arms_leave_is_known() -> None:
    def f(x: Any) -> Any:
        r, s = ta.ref(x, "r"), ta.ref(x * 2.0, "s")
        ta.cond(x[0] > 0, lambda: r.mul(x), lambda: (s.get(), None)[1])
        return r.get(), s.get()

    text = "\n".join(bindings(f))
    assert "r : float64[3] = branch gt (x):" in text
    assert "return (r, mul_1)" in text, "what no arm writes is known after it"


def test_s004_25_an_alias_sees_what_is_written() -> None:
    def f(x: Any) -> Any:
        r = ta.ref(x)
        (lambda same: same.set(x + 1.0))(r)
        return r.get()

    assert bindings(f) == ["add : float64[3] = [i] x[i] + 1.0", "return add"]


def test_s004_25_a_reference_that_escapes_is_refused() -> None:
    with pytest.raises(DefinitionError, match="is a result of <lambda>"):
        ta.function(lambda x: ta.ref(x))(X)


def test_s004_25_calls_are_known_by_what_they_touch() -> None:
    @ta.function
    def reads_nothing(x: Any) -> Any:
        own = ta.ref(x)
        own.mul(x)
        return own.get()

    @ta.function
    def writes(r: Any) -> None:
        r.mul(2.0)

    def f(x: Any) -> Any:
        r = ta.ref(x, "r")
        y = reads_nothing(x)
        writes(r)
        return r.get() + y

    text = str(ta.function(f).trace(X))
    assert text.count("def ") == 2 and "reads_nothing(x)" in text
    assert "x[i]*2.0" in text.split("def f")[1], "a call that writes is written down in place"


def test_s004_25_a_loop_carries_what_it_writes() -> None:
    def f(x: Any) -> Any:
        r, s = ta.ref(x, "r"), ta.ref(x, "s")
        ta.for_loop(0, 3, lambda i, c: (r.add(s.get()), c)[1], None)
        return r.get()

    text = "\n".join(bindings(f))
    assert text.count("loop") == 1
    assert "s :" not in text, "what the body only reads is no carry"


UPSTREAM: dict[str, tuple[Program, Program]] = {
    # the reference of Relay's gradient test: read twice, written, read
    "doubled": (lambda x: _written(x, lambda r: r.set(r.get() + r.get())), lambda x: (x + x).sum()),
    # the reference of its evaluator's test
    "squared": (lambda x: _written(x, lambda r: r.set(r.get() * r.get())), lambda x: (x * x).sum()),
    # what its dead code lost: the write's own result is not used
    "unused result": (
        lambda x: _written(x, lambda r: (r.set(x * 3.0), 0)[1]),
        lambda x: (x * 3.0).sum(),
    ),
    # a function is called for its effect alone
    "call": (lambda x: _written(x, ta.function(lambda r: r.mul(5.0))), lambda x: (x * 5.0).sum()),
    # written twice: the first write is dead
    "twice": (
        lambda x: _written(x, lambda r: (r.set(ta.topi.exp(x)), r.set(x * 2.0))),
        lambda x: (x * 2.0).sum(),
    ),
}  # fmt: skip


def _written(x: Any, write: Callable[[Any], Any]) -> Any:
    r = ta.ref(x)
    write(r)
    return r.get().sum()


@pytest.mark.parametrize("name", UPSTREAM)
def test_s004_29_no_write_is_lost_and_none_is_left(name: str) -> None:
    with_refs, without = UPSTREAM[name]
    check_same(with_refs, without, X)
    gradients = [str(ta.grad(f).trace(X)).partition("\n")[2] for f in (with_refs, without)]
    assert gradients[0] == gradients[1], "a clean program: the one without references"


def test_w_09_gradients_through_writes_that_look_dead() -> None:
    def f(x: Any) -> Any:
        r = ta.ref(x)

        def inner(y: Any) -> Any:
            r.set(y * y)
            return r.get() * y

        return ta.grad(lambda y: inner(y).sum())(x).sum() + r.get().sum()

    check_same(f, lambda x: ta.grad(lambda y: (y * y * y).sum())(x).sum() + (x * x).sum(), X)


@pytest.mark.slow
def test_t_07_reverse_mode_through_references_and_views() -> None:
    def f(x: Any) -> Any:
        r = ta.ref({"m": x.reshape(3, 1) * x, "n": 0})

        def body(t: Any, c: Any) -> Any:
            r.at["m"].T[t][1:].mul(x[:2])
            ta.cond(x[t] > 0, lambda: r.at["n"].add(1), lambda: r.at["m"].diagonal().set(x))
            return c

        ta.for_loop(0, 3, body, None)
        held = r.get()
        return (held["m"] * held["m"]).sum() * held["n"]

    def without(x: Any) -> Any:
        def body(t: Any, carry: Any) -> Any:
            m, n = carry
            m = m.at[1:, t].mul(x[:2])

            def other() -> Any:
                return m.at[0, 0].set(x[0]).at[1, 1].set(x[1]).at[2, 2].set(x[2]), n

            return ta.cond(x[t] > 0, lambda: (m, n + 1), other)

        m, n = ta.for_loop(0, 3, body, (x.reshape(3, 1) * x, 0))
        return (m * m).sum() * n

    check_same(f, without, X)


@pytest.mark.parametrize("seed", range(5000, 5004))
def test_s002_25_the_laws_of_lenses(seed: int) -> None:
    check_laws(seed)


def test_s002_25_overlapping_views_are_refused() -> None:
    r = ta.ref(X)
    with pytest.raises(DefinitionError, match="several times"):
        r.at[[0, 0]]
    with pytest.raises(DefinitionError, match="cannot show an element several times"):
        r.at.broadcast_to((2, 3))
