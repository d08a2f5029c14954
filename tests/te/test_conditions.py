"""`&`, `|`, `all_of` and `any_of` guard the reads on their right, as Python's `and` and `or`."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import BoundsError
from tensorad.ir.expr import Expr
from tensorad.ir.tensor import Compute, Tensor
from tests.support.refusals import placed

x = ta.placeholder((4,), "float64", name="X")
at = ta.placeholder((5,), "int64", name="N")
h = ta.placeholder((5,), "float64", name="H")
X = np.array([0.5, 1.5, 2.5, 3.5])
PADDED = np.array([-1, 0, 3, -1, 2])
H = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
VALUES = {x: X, at: PADDED, h: H}


def one_per_point(condition: Callable[[Expr], Expr]) -> Tensor:
    made = ta.compute((5,), lambda i: ta.select(condition(i), x[at[i]] * x[at[i]], -1.0), name="Y")
    assert isinstance(made, Tensor)
    return made


GUARDED = [
    lambda i: (at[i] >= 0) & (x[at[i]] > 1.0),
    lambda i: ta.all_of(at[i] >= 0, x[at[i]] > 1.0),
    lambda i: ta.all_of(at[i] >= 0, x[at[i]] > 1.0, x[at[i]] < 9.0, i >= 0),
    lambda i: ta.all_of(at[i] >= 0, (at[i] < 0) | (x[at[i]] > 1.0), ~(x[at[i]] <= 1.0)),
    lambda i: ~((at[i] < 0) | (x[at[i]] <= 1.0)),
    lambda i: ~ta.any_of(at[i] < 0, x[at[i]] <= 1.0, ~(x[at[i]] > 1.0)),
    lambda i: ((at[i] >= 0) & (x[at[i]] > 1.0)).astype("int64") > 0,
]


@pytest.mark.parametrize("condition", GUARDED)
def test_what_stands_to_the_left_keeps_a_read_inside(condition: Callable[[Expr], Expr]) -> None:
    y = one_per_point(condition)
    valid = (PADDED >= 0) & (X[PADDED] > 1.0)
    expected = np.where(valid, X[PADDED] ** 2, -1.0)
    np.testing.assert_array_equal(ta.interpret(y, VALUES), expected)
    np.testing.assert_array_equal(ta.evaluate(y, VALUES), expected)
    slopes = np.zeros(4)
    np.add.at(slopes, PADDED[valid], 2 * X[PADDED[valid]] * H[valid])
    (dx,) = ta.vjp(y, [x], h)
    np.testing.assert_array_equal(ta.interpret(dx, VALUES), slopes)
    np.testing.assert_array_equal(ta.evaluate(dx, VALUES), slopes)
    forward = ta.evaluate(ta.jvp(y, {x: np.eye(4)}), VALUES)
    np.testing.assert_array_equal(forward @ H, slopes)
    assert ta.gradcheck(y, [x], order=2, arrays={at: PADDED})


def test_counts_are_those_of_nested_selects() -> None:
    joined = one_per_point(lambda i: (at[i] >= 0) & (x[at[i]] > 1.0))
    nested = one_per_point(lambda i: ta.select(at[i] >= 0, x[at[i]] > 1.0, False))
    assert ta.work(joined) == ta.work(nested)
    of_joined, of_nested = [ta.vjp(y, [x], h)[0] for y in (joined, nested)]
    assert ta.work(of_joined) == ta.work(of_nested)
    assert str(ta.explain(of_joined)) == str(ta.explain(of_nested))


def test_an_index_that_stays_outside_is_reported() -> None:
    y = one_per_point(lambda i: (at[i] >= 0) & (x[at[i]] > 1.0))
    far = {**VALUES, at: np.array([-1, 0, 10**13, -1, 2])}
    with pytest.raises(BoundsError) as caught:
        ta.evaluate(y, far)
    assert placed(caught.value) == (
        "X is read at index 10000000000000 of axis 0, which has extent 4.\n"
        "  in: X[N[i]] in Y at HERE\n"
        "  hint: the index comes from the data of this call: correct it, or clamp it in the "
        "formula with minimum and maximum."
    )


@pytest.mark.parametrize("wrong", [-1, 4])
def test_both_ends_may_be_guarded_without_a_check_at_the_call(wrong: int) -> None:
    y = one_per_point(lambda i: (at[i] >= 0) & (at[i] < 4) & (x[at[i]] > 1.0))
    padded = np.where(PADDED < 0, wrong, PADDED)
    expected = np.where((PADDED >= 0) & (X[PADDED] > 1.0), X[PADDED] ** 2, -1.0)
    np.testing.assert_array_equal(ta.evaluate(y, {**VALUES, at: padded}), expected)
    assert "check" not in str(ta.lower([y], [x, at]))


def test_the_order_decides() -> None:
    y = one_per_point(lambda i: (x[at[i]] > 1.0) & (at[i] >= 0))
    with pytest.raises(BoundsError, match="X is read at index -1 of axis 0"):
        ta.evaluate(y, VALUES)


def test_a_guard_over_axes_is_known_at_the_definition() -> None:
    z = ta.placeholder((6,), "float64", name="Z")
    y = ta.compute((6,), lambda i: ta.select((i > 0) & (z[i - 1] > 0.0), z[i - 1], z[i]), name="Y")
    values = np.array([1.0, -2.0, 3.0, 4.0, -5.0, 6.0])
    before = np.concatenate([[-1.0], values[:-1]])
    np.testing.assert_array_equal(ta.evaluate(y, {z: values}), np.where(before > 0, before, values))
    assert ta.gradcheck(y, [z], order=2)
    with pytest.raises(BoundsError) as caught:
        ta.compute((6,), lambda i: ta.select((i > 0) & (z[i - 2] > 0.0), 1.0, 0.0), name="Y")
    assert str(caught.value).startswith(
        "Z[i - 2] reads index -1 of axis 0, whose extent is 6.\n  in: Y, defined at "
    )
    assert str(caught.value).endswith("  hint: at i = 1; guard the read with select(...) or change"
                                      " the axis.")  # fmt: skip


def test_a_guard_over_sizes_asks_nothing_of_the_sizes() -> None:
    n = ta.size("n")
    z = ta.placeholder((n,), "float64", name="Z")
    y = ta.compute((9,), lambda i: ta.select((i < n) & (z[i] > 0.0), z[i], 0.0), name="Y")
    np.testing.assert_array_equal(
        ta.evaluate(y, {z: np.array([1.0, -1.0, 2.0])}), [1, 0, 2, 0, 0, 0, 0, 0, 0]
    )


def test_conditions_of_reducers_and_scatters_are_guarded() -> None:
    k = ta.reduce_axis(9, name="k")
    total = ta.compute(
        (), lambda: ta.sum(h[k], axis=k, where=ta.all_of(k < 5, at[k] >= 0, x[at[k]] > 1.0))
    )
    assert ta.evaluate(total, VALUES) == H[2] + H[4]
    (slopes,) = ta.vjp(total, [h])
    np.testing.assert_array_equal(ta.evaluate(slopes, VALUES), [0, 0, 1, 0, 1])
    assert ta.work(slopes).iterations == 5
    found = ta.scatter(
        (4,),
        (5,),
        lambda i: (
            ta.maximum(at[i], 0),
            ta.select((at[i] >= 0) & (x[at[i]] > 1.0), h[i], 0.0),
        ),
    )
    np.testing.assert_array_equal(ta.evaluate(found, VALUES), [0, 0, 5, 3])
    (slopes,) = ta.vjp(found, [h], np.arange(4.0))
    np.testing.assert_array_equal(ta.evaluate(slopes, VALUES), [0, 0, 3, 0, 2])


def test_proved_reads_are_evaluated_without_a_branch() -> None:
    y = ta.compute((5,), lambda i: ta.select((i > 2) & (h[i] > 1.0), h[i], 0.0), name="Y")
    assert isinstance(y.op, Compute)
    assert str(y.op.bodies[0]) == "select(i > 2 and H[i] > 1.0, H[i], 0.0)"


def truth(condition: object, n: int) -> bool:
    """Python's own answer; reading X outside raises."""
    match condition:
        case ("and", *parts):
            return all(truth(p, n) for p in parts)
        case ("or", *parts):
            return any(truth(p, n) for p in parts)
        case ("not", part):
            return not truth(part, n)
        case ("below", bound):
            return n < bound
        case ("read", bound):
            if not 0 <= n < 4:
                raise IndexError
            return bool(X[n] > bound)
    raise AssertionError(condition)


def written(condition: object, i: Expr) -> Expr:
    match condition:
        case ("and", *parts):
            return ta.all_of(*[written(p, i) for p in parts])
        case ("or", *parts):
            return ta.any_of(*[written(p, i) for p in parts])
        case ("not", part):
            return ~written(part, i)
        case ("below", bound):
            return at[i] < bound
        case ("read", bound):
            return x[at[i]] > bound
    raise AssertionError(condition)


def random_condition(rng: random.Random, depth: int) -> tuple[object, ...]:
    kind = rng.choice(["and", "or", "not"] if depth else ["below", "read"])
    if kind == "below":
        return (kind, rng.randrange(-1, 6))
    if kind == "read":
        return (kind, rng.randrange(4))
    count = 1 if kind == "not" else rng.randrange(2, 4)
    return (kind, *[random_condition(rng, depth - rng.randint(1, depth)) for _ in range(count)])


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", range(40))
def test_random_conditions_are_pythons(seed: int) -> None:
    rng = random.Random(seed)
    condition = random_condition(rng, 4)
    y = ta.compute((5,), lambda i: ta.select(written(condition, i), h[i], 0.0), name="Y")
    f = ta.build(y, [x, at, h])
    (dh,) = ta.vjp(y, [h], np.ones(5))
    g = ta.build(dh, [x, at, h])
    for n in range(-2, 6):
        indices = np.full(5, n)
        try:
            holds = truth(condition, n)
        except IndexError:
            for call in (f, g):
                with pytest.raises(BoundsError):
                    call(X, indices, H)
            with pytest.raises(BoundsError):
                ta.interpret(y, {x: X, at: indices, h: H})
        else:
            np.testing.assert_array_equal(f(X, indices, H), H * holds)
            np.testing.assert_array_equal(g(X, indices, H), np.ones(5) * holds)
            np.testing.assert_array_equal(ta.interpret(y, {x: X, at: indices, h: H}), H * holds)


@pytest.mark.parametrize(("first", "second"), [(0, 1), (1, 0), (0, 0), (3, -9)])
def test_a_loop_of_two_components_runs_where_either_is_used(first: int, second: int) -> None:
    """Its bound is read outside of an array where neither is."""
    counts = ta.placeholder((4,), "int64", name="C")
    values = {**VALUES, counts: np.array([3, 1, 4, 2])}
    both = ta.comm_reducer(lambda a, b: (a[0] + b[0], a[1] + b[1]), lambda *_: (0.0, 0.0))

    def point(i: Expr) -> Expr:
        k = ta.reduce_axis((0, counts[at[i]]), name="k")
        total, squares = both((x[k], x[k] * x[k]), axis=k)
        one = ta.select(at[i] >= first, total, -1.0)
        return one + ta.select((at[i] >= 0) & (at[i] >= second), squares, -2.0)

    y = ta.compute((5,), point, name="Y")
    expected = []
    for n in PADDED:
        used = X[: values[counts][n]]
        one = used.sum() if n >= first else -1.0
        expected.append(one + ((used**2).sum() if n >= max(second, 0) else -2.0))
    np.testing.assert_array_equal(ta.interpret(y, values), expected)
    np.testing.assert_array_equal(ta.evaluate(y, values), expected)
