"""Intervals and bounds of reads, against brute force over small domains."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import tensorad as ta
from tensorad.errors import BoundsError
from tensorad.ir.analysis.facts import forget_facts
from tensorad.ir.expr import Axis, Call, Const, Expr, Select, Size, axis, call, int_const, select
from tensorad.ir.tensor import Tensor
from tensorad.simplify.bounds.reads import classify_reads, interval, size_conditions, size_violation
from tensorad.simplify.index.intervals import Interval
from tensorad.te.scalars import maximum, minimum

ARITHMETIC: dict[str, Callable[..., int]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "floordiv": lambda x, y: x // y if y else 0,
    "mod": lambda x, y: x % y if y else 0,
    "minimum": min,
    "maximum": max,
    "neg": lambda x: -x,
    "abs": abs,
    "sign": lambda x: (x > 0) - (x < 0),
    "lt": lambda x, y: x < y,
    "ge": lambda x, y: x >= y,
    "eq": lambda x, y: x == y,
    "and": lambda x, y: bool(x and y),
    "or": lambda x, y: bool(x or y),
    "not": lambda x: not x,
}


@pytest.fixture(autouse=True)
def _no_facts_left() -> Iterator[None]:
    yield
    forget_facts()


def value(e: Expr, at: dict[Expr, int]) -> int:
    """`e` at a point, by the definition of each operation."""
    if e in at:
        return at[e]
    if isinstance(e, Const):
        return int(e.value)
    if isinstance(e, Select):
        return value(e.then if value(e.cond, at) else e.orelse, at)
    assert isinstance(e, Call), e
    return ARITHMETIC[e.op](*[value(a, at) for a in e.args])


def points(axes: list[Axis]) -> Iterator[dict[Expr, int]]:
    def steps(a: Axis, at: dict[Expr, int]) -> range:
        return range(value(a.lower, at), value(a.upper, at), value(a.step, at))

    def run(left: list[Axis], at: dict[Expr, int]) -> Iterator[dict[Expr, int]]:
        if not left:
            yield at
            return
        for v in steps(left[0], at):
            yield from run(left[1:], {**at, left[0]: v})

    yield from run(axes, {})


class RandomIndex:
    """Random index arithmetic over two axes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        i = axis("i", self.random.randint(-4, 2), self.random.randint(3, 6))
        j = axis("j", self.random.randint(-3, 1), self.random.randint(2, 4), self.pick(1, 3))
        self.axes = [i, j]

    def pick(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def expression(self, depth: int) -> Expr:
        kind = self.random.random()
        if depth == 0 or kind < 0.2:
            return self.random.choice([*self.axes, int_const(self.pick(-4, 4))])
        x, y = self.expression(depth - 1), self.expression(depth - 1)
        if kind < 0.3:
            return call(self.random.choice(["neg", "abs", "sign"]), x)
        if kind < 0.4:
            return select(call(self.random.choice(["lt", "ge"]), x, y), x, y)
        op = self.random.choice(list(ARITHMETIC)[:7])
        if op in ("floordiv", "mod") and isinstance(y, Const) and y.value == 0:
            y = int_const(3)
        return call(op, x, y)


def test_intervals_contain_every_value() -> None:
    for seed in range(400):
        made = RandomIndex(seed)
        e = made.expression(4)
        found = interval(e)
        values = [value(e, at) for at in points(made.axes)]
        assert all(Interval(v, v).within(found) for v in values), (seed, str(e), found)


@pytest.mark.parametrize(
    ("e", "lo", "hi"),
    [
        (axis("i", 2, 10) - 3, -1, 6),
        (axis("i", 0, 10, 4), 0, 8),
        (axis("i", 0, 10) * -2, -18, 0),
        (axis("i", -5, 5) // 3, -2, 1),
        (axis("i", 0, 100) % 7, 0, 6),
        (axis("i", 0, 5) % 7, 0, 4),
        (minimum(axis("i", 0, 10), 4), 0, 4),
        (axis("i", 0, Size(ta.size("n").dtype, "n")), 0, None),
        ((axis("i", 0, ta.size("n")) + 1) % 4, 0, 3),
        (ta.size("n") - ta.size("m") + 1, None, None),
        ((axis("i", 0, 4) > 2).astype("int64"), 0, 1),
    ],
)
def test_intervals_by_hand(e: Expr, lo: int | None, hi: int | None) -> None:
    assert interval(e) == Interval(lo, hi)


def test_intervals_of_tensors() -> None:
    k = ta.reduce_axis(9)
    table = ta.const(np.array([3, -2, 7]))
    X = ta.placeholder((4, 9), name="X")
    small = ta.placeholder((4,), "uint8")
    winner = ta.compute((4,), lambda i: ta.argmax(X[i, k], axis=k))
    count = ta.compute((4,), lambda i: ta.sum(X[i, k] > 0, axis=k))
    largest = ta.compute((), lambda: ta.max(table[k % 3], axis=k))
    prefix = ta.scan(winner, 0, "max")
    product = ta.compute((), lambda: ta.prod(table[k % 3], axis=k))
    everything = Interval(-(1 << 63), (1 << 63) - 1)
    assert interval(table[k]) == Interval(-2, 7)
    assert interval(small[k]) == Interval(0, 255)
    assert interval(winner[k]) == Interval(0, 8)
    assert interval(count[k]) == Interval(0, 9)
    assert interval(largest[()]) == Interval(-2, 7)
    assert interval(prefix[k]) == Interval(0, 8)
    assert interval(product[()]) == everything


def test_a_fold_that_may_be_empty_includes_its_identity() -> None:
    n = ta.size("n")
    X = ta.placeholder((4, 9), name="X")
    k, m, none = ta.reduce_axis(9), ta.reduce_axis(n), ta.reduce_axis(0)
    table = ta.const(np.array([3, 0, 7]))
    guarded = ta.compute((4,), lambda i: ta.argmax(X[i, k], axis=k, where=X[i, k] > 0))
    open_ended = ta.compute((), lambda: ta.min(table[m % 3], axis=m))
    empty = ta.compute((), lambda: ta.argmax(table[none], axis=none))
    before = ta.scan(table, 0, "max", exclusive=True)
    assert interval(guarded[k]) == Interval(-1, 8)
    assert interval(open_ended[()]) == Interval(0, (1 << 63) - 1)
    assert interval(empty[()]).lo == -1
    assert interval(before[k]) == Interval(-(1 << 63), 7)


def test_components_of_a_fold_are_bounded_one_by_one() -> None:
    last_count = ta.comm_reducer(lambda a, b: (b[0], a[1] + 1), lambda s, t: (-5, 0), name="last")
    k = ta.reduce_axis(9)
    table = ta.const(np.array([3, 0, 7]))
    last, count = ta.compute((), lambda: last_count((table[k % 3], k), axis=k))
    assert interval(last[()]) == Interval(0, 7)
    assert interval(count[()]) == Interval(-(1 << 63), (1 << 63) - 1)


def test_decided_conditions() -> None:
    X = ta.placeholder((4,), name="X")
    i = ta.reduce_axis((2, 6))
    assert interval(ta.select(i < 6, i, -1)) == Interval(2, 5)
    assert interval(ta.select((i > 5) | (i <= 1), i, -1)) == Interval(-1, -1)
    assert interval(ta.select(X[i - 2] < X[i - 2], i, -1)) == Interval(-1, 5)
    assert interval(ta.select(~(i == 7) & (i != 8), i, -1)) == Interval(2, 5)


def test_arithmetic_that_may_wrap_is_unknown() -> None:
    W = ta.placeholder((4,), "int64", name="W")
    assert interval(maximum(W[0], 0)) == Interval(0, (1 << 63) - 1)
    assert interval(maximum(W[0], 0) + 5) == Interval(-(1 << 63), (1 << 63) - 1)
    assert interval(minimum(maximum(W[0], 0), 9) + 5) == Interval(5, 14)


def kinds(t: Tensor) -> dict[str, str]:
    return {str(r): kind for r, kind in classify_reads(t.op).items()}


def test_the_class_of_random_reads_is_that_of_enumeration() -> None:
    """Read X[index] where a guard holds: in range at every point, or an error."""
    X = ta.placeholder((5,), name="X")
    errors = 0
    for seed in range(300):
        made = RandomIndex(seed)
        index, a, b = (made.expression(2) for _ in range(3))
        i, j = made.axes
        seen = [value(index, at) for at in points(made.axes) if value(call("lt", a, b), at)]
        inside = all(0 <= v < 5 for v in seen)
        total = ta.sum(X[index], axis=[i, j], where=a < b)
        try:
            Y = ta.compute((), lambda total=total: total)
        except BoundsError as error:
            errors += 1
            assert not inside, str(error)
            found = re.search(r"reads index (-?\d+) of", str(error))
            assert found is not None
            assert int(found[1]) in seen
        else:
            kind = kinds(Y)[next(iter(kinds(Y)))]
            assert inside, (seed, str(index))
            assert kind != "dynamic"
            if kind == "always":
                assert all(0 <= value(index, at) < 5 for at in points(made.axes))
    assert errors > 100


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (lambda X, W, i: X[i], "always"),
        (lambda X, W, i: X[9 - i], "always"),
        (lambda X, W, i: X[(i * 7 + 3) % 10], "always"),
        (lambda X, W, i: ta.select(i > 0, X[i - 1], 0), "guarded"),
        (lambda X, W, i: ta.select(i == 0, 0, X[i - 1]), "guarded"),
        (lambda X, W, i: ta.select(i * i > 80, 0, X[i + 1]), "guarded"),
        (lambda X, W, i: X[W[i]], "dynamic"),
        (lambda X, W, i: X[W[i] % 10], "always"),
        (lambda X, W, i: X[maximum(minimum(W[i], 9), 0)], "always"),
        (lambda X, W, i: ta.select((W[i] >= 0) & (W[i] < 10), X[W[i]], 0), "guarded"),
        (lambda X, W, i: ta.select((W[i] >= 2) & (W[i] < 12), X[W[i] - 2], 0), "guarded"),
        (lambda X, W, i: ta.select((W[i] >= 0) & (W[i] < 11), X[W[i]], 0), "dynamic"),
        (lambda X, W, i: ta.select(X[i] > 0, X[i + 1], 0), "dynamic"),
        (lambda X, W, i: ta.select((X[i] > 0) & (i < 9), X[i + 1], 0), "guarded"),
        (lambda X, W, i: X[X[i].astype("int64")], "dynamic"),
        (lambda X, W, i: X[minimum(maximum(W[i], 0) + 5, 9)], "dynamic"),
    ],
)
def test_classes_by_hand(body: Callable[..., Expr], kind: str) -> None:
    X = ta.placeholder((10,), name="X")
    W = ta.placeholder((10,), "int64", name="W")
    Y = ta.compute((10,), lambda i: body(X, W, i))
    worst = [k for k in ("dynamic", "guarded", "always") if k in kinds(Y).values()]
    assert worst[0] == kind


def test_positions_of_a_winner_are_in_range_under_their_guard() -> None:
    X = ta.placeholder((10, 3, 3), name="X")
    a, b = ta.reduce_axis(3, "a"), ta.reduce_axis(3, "b")
    W = ta.compute((10,), lambda i: ta.argmax(X[i, a, b], axis=[a, b]), name="W")
    Y = ta.compute((10,), lambda i: ta.select(W[i] >= 0, X[i, W[i] // 3, W[i] % 3], 0))
    Z = ta.compute((10,), lambda i: X[i, maximum(W[i], 0) // 3, maximum(W[i], 0) % 3])
    some = ta.compute((10,), lambda i: ta.argmax(X[i, a, b], axis=[a, b], where=a < i), name="S")
    V = ta.compute((10,), lambda i: ta.select(some[i] >= 0, X[i, some[i] // 3, some[i] % 3], 0))
    assert set(kinds(Y).values()) == {"always"}
    assert kinds(V) == {"S[i]": "always", "X[i, S[i]//3, S[i] % 3]": "guarded"}
    assert set(kinds(Z).values()) == {"always"}


def test_a_read_is_as_good_as_its_worst_place() -> None:
    X = ta.placeholder((10,), name="X")
    W = ta.placeholder((10,), "int64", name="W")
    inside = (W[0] >= 0) & (W[0] < 10)
    Y = ta.compute((), lambda: ta.select(inside, X[W[0]], 0) + X[W[0]])
    assert kinds(Y)["X[W[0]]"] == "dynamic"


def test_the_condition_of_a_reduction_guards_its_source() -> None:
    X = ta.placeholder((10,), name="X")
    k = ta.reduce_axis(3)
    Y = ta.compute((10,), lambda i: ta.sum(X[i + k - 1], axis=k, where=(i + k > 0) & (i + k < 11)))
    assert kinds(Y) == {"X[i + k - 1]": "guarded"}
    with pytest.raises(BoundsError, match=re.escape("at i = 9, k = 2; guard")):
        ta.compute((10,), lambda i: ta.sum(X[i + k - 1], axis=k, where=i + k > 0))


def test_reads_that_are_never_evaluated_are_fine() -> None:
    X = ta.placeholder((10,), name="X")
    for shape in [(0,), (3, 0)]:
        ta.compute(shape, lambda *_: X[12])
    ta.compute((3,), lambda i: ta.select(i > 5, X[i + 100], 0))


def test_sizes_are_proved_or_become_conditions() -> None:
    n, m = ta.size("n"), ta.size("m")
    X = ta.placeholder((n,), name="X")
    proved = ta.compute((n,), lambda i: X[n - 1 - i])
    guarded = ta.compute((m,), lambda i: ta.select(i < n, X[i], 0))
    shifted = ta.compute((m,), lambda i: X[i + 1], name="shifted")
    assert size_conditions(proved.op) == size_conditions(guarded.op) == ()
    assert kinds(shifted) == {"X[i + 1]": "always"}
    for sizes in itertools.product(range(5), repeat=2):
        at: dict[Expr, int] = dict(zip((n, m), sizes, strict=True))
        fits = sizes[1] == 0 or sizes[1] < sizes[0]
        assert all(value(c, at) for c in size_conditions(shifted.op)) == fits
        assert (size_violation(shifted.op, at) is None) == fits


def test_a_violated_condition_has_a_witness() -> None:
    n, m = ta.size("n"), ta.size("m")
    X = ta.placeholder((n,), name="X")
    Y = ta.compute((m,), lambda i: X[i + 1], name="Y")
    error = size_violation(Y.op, {n: 3, m: 5})
    assert re.sub(r"at \S+:\d+", "at HERE", str(error)) == (
        "X[i + 1] reads index 3 of axis 0, whose extent n is 3.\n"
        "  in: Y, defined at HERE\n"
        "  hint: at m = 5, n = 3, i = 2; guard the read with select(...) or change the axis."
    )


def test_a_read_that_fits_no_size_is_an_error_at_once() -> None:
    n = ta.size("n")
    X = ta.placeholder((n,), name="X")
    with pytest.raises(BoundsError) as error:
        ta.compute((n,), lambda i: X[i + 1], name="Y")
    assert re.sub(r"at \S+:\d+", "at HERE", str(error.value)) == (
        "X[i + 1] reads index 1 of axis 0, whose extent n is 1.\n"
        "  in: Y, defined at HERE\n"
        "  hint: at n = 1, i = 0; guard the read with select(...) or change the axis."
    )


def test_facts_prove_reads() -> None:
    p, q = ta.size("p"), ta.size("q")
    X = ta.placeholder((q,), name="X")
    ta.assume(2 * p <= q)
    Y = ta.compute((p,), lambda i: X[2 * i + 1])
    assert size_conditions(Y.op) == ()
    assert kinds(Y) == {"X[2*i + 1]": "always"}


def test_equal_names_do_not_share_verdicts_of_other_structures() -> None:
    """The memory of proofs keeps structures apart: bounds, guards and extents all count."""
    for extent, ok in [(10, True), (9, False), (11, True)]:
        X = ta.placeholder((extent,), name="X")
        if ok:
            ta.compute((5,), lambda i: X[i * 2 + 1])  # called at once
        else:
            with pytest.raises(BoundsError):
                ta.compute((5,), lambda i: X[i * 2 + 1])  # called at once


def test_writes_of_a_scatter_are_checked() -> None:
    X = ta.placeholder((10,), name="X")
    T = ta.placeholder((10,), "int64", name="T")
    S = ta.scatter((5,), (10,), lambda i: (i // 2, X[i]))
    D = ta.scatter((5,), (10,), lambda i: (T[i], X[i]))
    assert set(kinds(S).values()) == {"always"}
    assert sorted(kinds(D).values()) == ["always", "always", "dynamic"]
    with pytest.raises(BoundsError, match="writes index 5 of axis 0, whose extent is 5"):
        ta.scatter((5,), (11,), lambda i: (i // 2, 1.0), name="S")


@pytest.mark.slow
def test_deep_formulas() -> None:
    X = ta.placeholder((10,), name="X")
    W = ta.placeholder((10,), "int64", name="W")

    def body(i: Expr) -> Expr:
        index: Expr = W[i]
        total: Expr = X[i]
        for n in range(5_000):
            index = (index + n) % 10
            total = ta.select(i > n % 7, total + 1.0, total)
        return total + X[index]

    Y = ta.compute((10,), body)
    assert set(kinds(Y).values()) == {"always"}


@pytest.mark.slow
def test_chains_of_integer_tensors() -> None:
    t = ta.placeholder((4,), "int64", name="T") % 7
    for _ in range(3_000):
        t = ta.compute((4,), lambda i, t=t: minimum(t[i], 6))
    X = ta.placeholder((7,), name="X")
    Y = ta.compute((4,), lambda i: X[t[i]])
    assert set(kinds(Y).values()) == {"always"}


def test_a_call_checks_the_sizes_its_reads_need() -> None:
    n, m, p = ta.size("n"), ta.size("m"), ta.size("p")
    X = ta.placeholder((n,), name="X")
    T = ta.placeholder((p,), name="T")
    Y = ta.compute((m,), lambda i: X[i + 1], name="Y")
    f = ta.build([Y, T * 2.0], [X, T])
    x, t = np.arange(6, dtype="float32"), np.ones(2, "float32")
    np.testing.assert_array_equal(f(x, t, m=5)[0], x[1:])
    assert f(x[:1], t, m=0)[0].shape == (0,)
    with pytest.raises(BoundsError, match=re.escape("X[i + 1] reads index 6 of axis 0")):
        f(x, t, m=6)


def test_a_call_checks_reads_that_data_guards() -> None:
    X = ta.placeholder((4,), name="X")
    Y = ta.compute((4,), lambda i: ta.select(X[i] > 0, X[i + 1], 0), name="Y")
    f = ta.build(Y, [X])
    x = np.array([1, -1, 2, -2], "float32")
    np.testing.assert_array_equal(f(x), [-1, 0, -2, 0])
    with pytest.raises(BoundsError, match="X is read at index 4 of axis 0"):
        f(np.abs(x))
