"""Views of what references hold: NumPy's elements, the laws of lenses, work in loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.codegen.loops.interpret import interpret_loops
from tensorad.codegen.lower import lower_program
from tensorad.errors import DefinitionError
from tests.support.programs.with_references import check_same

Array = np.ndarray
Step = Callable[[Any], Any]
"""A view of a view; of an array of NumPy's one, too."""
X = np.arange(24.0).reshape(6, 4) / 7 - 1.3


def _random_step(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[str, Step, Step]:
    """What it is, on a view, and on an array."""
    kinds = ["reshape", "index", "slice"] + ["transpose", "diagonal"] * (len(shape) > 1)
    kinds += ["points", "several"] * bool(shape and 0 not in shape)
    kind = rng.choice(kinds)
    if kind == "reshape":
        wanted = _factors(rng, int(np.prod(shape)))
        return f"reshape{wanted}", lambda v: v.reshape(wanted), lambda a: a.reshape(wanted)
    if kind == "transpose":
        order = tuple(int(n) for n in rng.permutation(len(shape)))
        if rng.random() < 0.5:
            return "T", lambda v: v.T, lambda a: a.T
        return f"transpose{order}", lambda v: v.transpose(order), lambda a: a.transpose(order)
    if kind == "diagonal":
        a, b = (int(n) for n in rng.permutation(len(shape))[:2])
        k = int(rng.integers(1 - shape[a], shape[b])) if shape[a] and shape[b] else 0
        return (
            f"diagonal({k}, {a}, {b})",
            lambda v: v.diagonal(k, a, b),
            lambda x: np.diagonal(x, k, a, b),
        )
    key = _random_key(rng, kind, shape)
    return f"[{key}]", lambda v: v[key], lambda a: a[key]


def _factors(rng: np.random.Generator, n: int) -> tuple[int, ...]:
    found: list[int] = []
    while n > 1 and len(found) < 3:
        divisors = [d for d in range(1, n + 1) if n % d == 0]
        found.append(int(rng.choice(divisors)))
        n //= found[-1]
    return (*found, n)


def _random_key(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> Any:
    if kind == "index" and shape and 0 not in shape:
        d = int(rng.integers(len(shape)))
        k = int(rng.integers(-shape[d], shape[d]))
        return (*[slice(None)] * d, k) if d else k
    if kind == "points":
        n = shape[0]
        return rng.permutation(n)[: int(rng.integers(1, n + 1))] - int(rng.integers(0, 2)) * n
    if kind == "several" and len(shape) > 1:
        count = shape[0] * shape[1]
        flat = rng.permutation(count)[: int(rng.integers(1, count + 1))]
        return (flat // shape[1], flat % shape[1])
    keys: list[Any] = []
    for n in shape:
        step = int(rng.choice([1, 1, 2, -1, -2]))
        low, high = sorted(int(k) for k in rng.integers(0, n + 1, 2))
        keys.append(slice(low, high, step) if step > 0 else slice(None, None, step))
    if rng.random() < 0.3:
        keys.insert(int(rng.integers(len(keys) + 1)), None)
    elif rng.random() < 0.3:
        return ...
    return tuple(keys)


def _random_view(
    rng: np.random.Generator, r: Any, shape: tuple[int, ...]
) -> tuple[str, Any, Array]:
    """A composition: its text, the view, and the positions of the elements in row-major order."""
    positions = np.arange(int(np.prod(shape))).reshape(shape)
    view, texts = r.at, []
    for _ in range(int(rng.integers(1, 5))):
        text, on_view, on_array = _random_step(rng, positions.shape)
        texts.append(text)
        view, positions = on_view(view), on_array(positions)
    return " ".join(texts), view, positions


def check_laws(seed: int) -> None:
    """A random composition has NumPy's elements and keeps the laws."""
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 5, int(rng.integers(1, 4))))
    s = ta.placeholder(shape, "float64", "s")
    r = ta.ref(s, "r")
    text, view, positions = _random_view(rng, r, shape)
    assert view.shape == positions.shape, f"{seed}: {text}"
    t, t2 = (ta.placeholder(positions.shape, "float64", n) for n in ("t", "t2"))
    got = view.get()
    view.set(t)
    once, again = r.get(), view.get()
    view.set(t2)
    twice = r.get()
    r.set(s)
    view.set(t2)
    direct = r.get()
    r.set(s)
    view.set(view.get())
    stable = r.get()
    r.set(s)
    view.add(t)
    added = r.get()
    given = {x: rng.standard_normal(x.shape) for x in (s, t, t2)}
    values = ta.interpret([got, once, again, twice, direct, stable, added], given)
    flat = given[s].reshape(-1)
    expected = flat.copy()
    expected[positions.reshape(-1)] = given[t].reshape(-1)
    total = flat.copy()
    total[positions.reshape(-1)] += given[t].reshape(-1)
    told = f"seed {seed}: {text} of {shape}"
    np.testing.assert_array_equal(values[0], flat[positions], told)
    np.testing.assert_array_equal(values[1], expected.reshape(shape), told)
    np.testing.assert_array_equal(values[2], given[t], f"get(put(t, s)) = t, {told}")
    np.testing.assert_array_equal(values[3], values[4], f"put(t2, put(t, s)), {told}")
    np.testing.assert_array_equal(values[5], given[s], f"put(get(s), s) = s, {told}")
    np.testing.assert_array_equal(values[6], total.reshape(shape), told)


@pytest.mark.parametrize("seed", range(10))
def test_laws(seed: int) -> None:
    check_laws(seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_laws_of_a_thousand_compositions(part: int) -> None:
    for seed in range(1000 + 100 * part, 1100 + 100 * part):
        check_laws(seed)


def test_compiled_views_are_the_interpreters() -> None:
    for seed in range(200, 205):
        rng = np.random.default_rng(seed)

        def f(s: Any, rng: np.random.Generator = rng) -> Any:
            r = ta.ref(s, "r")
            for _ in range(2):
                view = _random_view(rng, r, s.shape)[1]
                view.set(view.get() * 2.0 + 1.0)
            return r.get()

        made = ta.function(f)
        s = rng.standard_normal((3, 4))
        np.testing.assert_allclose(made(s), ta.interpret(made, s), rtol=1e-15)


def test_a_view_shows_what_is_held_now() -> None:
    def f(x: Any) -> Any:
        r = ta.ref({"w": x, "n": 0}, "r")
        view = r.at["w"].T[1]
        before = view.get()
        r.set({"w": x * 2.0, "n": 1})
        after = view.get()
        r.at["w"].mul(2.0)
        r.at["n"].add(1)
        return before, after, view.get(), r.at["n"].get()

    before, after, last, n = ta.function(f)(X)
    for found, factor in ((before, 1), (after, 2), (last, 4)):
        np.testing.assert_array_equal(found, factor * X[:, 1])
    assert n == 2


def test_fields() -> None:
    def f(x: Any) -> Any:
        r = ta.ref({"a": (x, [x[0], 0.0]), "f": ta.topi.sin}, "r")
        r.at["a"][1].set([x[1], 2.0])
        r.at["a"][1][0][1:].mul(3.0)
        r.at["a"][1][1].set(x[0, 0])
        r.at["f"].set(ta.topi.cos)
        r.at["a"][0].at[0, 0].set(9.0)
        held = r.get()
        return held["a"], held["f"](x), r.at["a"][1].get()[1]

    (x, (row, number)), cos, same = ta.function(f)(X)
    expected = X.copy()
    expected[0, 0] = 9.0
    np.testing.assert_array_equal(x, expected)
    np.testing.assert_array_equal(row, X[1] * [1, 3, 3, 3])
    assert number == same == X[0, 0]
    np.testing.assert_allclose(cos, np.cos(X))


def test_fields_of_tuples_count_from_both_ends() -> None:
    def f(x: Any) -> Any:
        r = ta.ref(((x, x * 2.0), x * 3.0), "r")
        r.at[1].set(x * 5.0)
        r.at[-2][-2].set(x * 7.0)
        return r.get(), r.at[-1].get()

    assert ta.function(f)(np.float64(1.0)) == (((7.0, 2.0), 5.0), 5.0)
    with pytest.raises(DefinitionError, match="has no field -3"):
        ta.function(lambda x: ta.ref((x, x), "r").at[-3].get())(1.0)


def test_numbers_as_wholes_take_dtypes() -> None:
    def f(x: Any) -> Any:
        r = ta.ref(0.0, "r")
        r.at[...].set(x)
        return r.get()

    assert ta.function(f)(np.float64(0.1)) == 0.1


def test_outside_of_functions_parts_are_tensors() -> None:
    r = ta.ref(X, "r")
    r.at[1, ::2].set([5.0, 6.0])
    expected = X.copy()
    expected[1, ::2] = [5.0, 6.0]
    np.testing.assert_array_equal(ta.evaluate(r.get(), {}), expected)
    np.testing.assert_array_equal(ta.evaluate(r.at.T[2].get(), {}), expected[:, 2])


def in_a_loop(write: Callable[[Any, Any, Any], Any]) -> Any:
    """Functions of (n, 4) arrays: a write to a view in each iteration."""

    def f(x: Any) -> Any:
        r = ta.ref(x * 0.0, "r")
        ta.for_loop(0, x.shape[0], lambda t, c: (write(r, t, x), c)[1], None)
        return (r.get() * x).sum()

    return f


WRITES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "row": lambda r, t, x: r.at[t].set(2.0 * x[t]),
    "part of a row": lambda r, t, x: r.at[t][1:3].set(x[t, :2]),
    "column of the transpose": lambda r, t, x: r.at.T[:, t].add(x[t]),
    "of two shapes": lambda r, t, x: r.at.reshape(-1).reshape(x.shape[0], 2, 2)[t, 1].set(x[t, :2]),
    "of another view": lambda r, t, x: r.at[t, ::2].set(r.at[t, 1::2].get() + x[t, :2]),
    "of the last row": lambda r, t, x: r.at[::-1][t].set(x[t]),
    "by a number": lambda r, t, x: r.at[t, 1].mul(x[t, 0]),
}


def executed(f: Any, n: int) -> int:
    """How many points the loops of a call with n rows visit."""
    p = ta.function(f).trace(np.zeros((n, 4)))
    program = lower_program(list(p.results), list(p.parameters), schedule=False)
    return interpret_loops(program, {t: np.ones((n, 4)) for t in p.parameters})[1]


@pytest.mark.parametrize("name", WRITES)
def test_writes_in_loops_are_in_place(name: str) -> None:
    f = in_a_loop(WRITES[name])
    for g in (f, ta.grad(f)) if name != "of another view" else (f,):
        counts = [executed(g, n) for n in (4, 8, 16)]
        assert counts[2] - counts[1] == 2 * (counts[1] - counts[0]), "constant in each iteration"


def test_writes_are_as_cheap_as_those_of_tensors() -> None:
    def without(x: Any) -> Any:
        last = ta.for_loop(0, x.shape[0], lambda t, c: c.at[t].set(2.0 * x[t]), x * 0.0)
        return (last * x).sum()

    f = in_a_loop(WRITES["row"])
    assert executed(f, 9) == executed(without, 9)
    check_same(f, without, X)


def test_at_an_index_that_data_tells() -> None:
    def f(x: Any) -> Any:
        r, k = ta.ref(x * 0.0, "r"), ta.ref(0, "k")

        def body(t: Any, c: Any) -> Any:
            r.at[k.get()][1:3].set(x[t, 1:3] * 3.0)
            k.set((k.get() + 2) % 5)
            return c

        ta.for_loop(0, 4, body, None)
        return (r.get() * x).sum()

    def without(x: Any) -> Any:
        def body(t: Any, carry: Any) -> Any:
            r, k = carry
            return r.at[k, 1:3].set(x[t, 1:3] * 3.0), (k + 2) % 5

        return (ta.for_loop(0, 4, body, (x * 0.0, 0))[0] * x).sum()

    check_same(f, without, X[:5])


def test_both_modes_through_views() -> None:
    def with_refs(x: Any) -> Any:
        r = ta.ref(x, "r")
        r.at.reshape(2, 12).T[::3].mul(x[:4, :2])
        r.at[2:].at.diagonal().set(r.at[0].get() * r.at[:, 1].get()[:4])
        r.at[[3, 0]].add(x[1:3] ** 2)
        return (r.get() ** 2).sum()

    def without(x: Any) -> Any:
        flat = ta.topi.transpose(x.reshape(2, 12))
        flat = flat.at[::3].mul(x[:4, :2])
        y = ta.topi.transpose(flat).reshape(6, 4)
        new = y[0] * y[:4, 1]
        for n in range(4):
            y = y.at[2 + n, n].set(new[n])
        y = y.at[3].add(x[1] ** 2).at[0].add(x[2] ** 2)
        return (y**2).sum()

    check_same(with_refs, without, X)


@pytest.mark.slow
def test_second_derivatives_of_a_part_that_an_arm_writes() -> None:
    """The sum inside of a formula stays beside the params of an arm, in any order of modes."""
    v = np.array([0.3, -0.5, 1.2])

    def f(v: Any, k: Any) -> Any:
        r = ta.ref(v)
        ta.cond(k > 0, lambda: r.at[::-1][1:].add(ta.sin(v @ v)), lambda: None)
        return r.get().sum()

    def forward(v: Any, k: Any) -> Any:
        return ta.jvp(lambda a: f(a, k), (v,), (v,))[1]

    def along(v: Any, k: Any) -> Any:
        return ta.topi.sum(ta.grad(f)(v, k) * v)

    def of_gradient(v: Any, k: Any) -> Any:
        return ta.jvp(lambda a: ta.grad(f)(a, k), (v,), (v,))[1]

    product = v @ v  # the Hessian is 2 (2 cos(v v) - 4 v v^T sin(v v))
    curved = 2 * (2 * np.cos(product) * v - 4 * v * product * np.sin(product))
    slope = 1 + 4 * v * np.cos(product)
    k = np.int64(1)
    np.testing.assert_allclose(ta.function(ta.grad(forward))(v, k), curved + slope)
    np.testing.assert_allclose(ta.function(ta.grad(along))(v, k), curved + slope)
    np.testing.assert_allclose(ta.function(of_gradient)(v, k), curved)
