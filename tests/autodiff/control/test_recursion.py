"""Derivatives of definitions and records, both modes, any order, by what is run."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorad as ta
from tensorad.autodiff.control.record_flows import RecordSums
from tensorad.autodiff.control.recursion import Derived
from tensorad.autodiff.local.records import added, check_no_batch, places, tangent_type
from tensorad.errors import DTypeError
from tensorad.ir.analysis.calls import has_recursion
from tensorad.ir.dtypes import FLOAT64, INT64
from tensorad.ir.records import (
    Definition,
    Field,
    RecordType,
    Recursion,
    Variant,
    fields_of,
    inject,
    recursion,
    stand_ins,
    tag_of,
)
from tensorad.ir.reference import interpret as reference
from tensorad.ir.reference.records import Record, handle
from tensorad.ir.reference.verify import verify
from tensorad.ir.tensor import Tensor
from tests.support.definitions import Tree, branch, net, power, product, scalar
from tests.support.records import List, cons_list, list_of

GIVEN, SCALE, ALONG = *stand_ins([Field("given", (), List)]), scalar("scale"), scalar("along")


def product_of(xs: Any, w: float) -> float:
    return float(np.prod(np.sin(w * np.asarray(xs))))


def slope(f: Callable[[float], float], x: float, h: float = 1e-5) -> float:
    return (f(x + h) - f(x - h)) / (2 * h)


def run(tensors: Any, values: dict[Tensor, Any]) -> Any:
    """The interpreter, of verified tensors."""
    verify(tensors if isinstance(tensors, list) else [tensors])
    return ta.interpret(tensors, values)


def list_values(record: Record) -> list[float]:
    """The numbers of a list, or of its derivative, 0 from where that is zero."""
    found = []
    while len(record.values) == 2:
        head, tail = record.values
        found.append(float(head))
        record = tail.item()
    return found


@pytest.mark.slow
def test_four_orders_of_a_power() -> None:
    x, k = scalar("x"), stand_ins([Field("k", (), INT64)])[0]
    (y,) = recursion(power(), (x, k))
    for order in range(1, 5):
        (y,) = ta.vjp(y, [x])
        for n in (0, 1, 2, 3, 7):
            want = math.prod(range(n - order + 1, n + 1)) * 1.3 ** (n - order)
            assert run(y, {x: 1.3, k: n}) == pytest.approx(want, rel=1e-12)


def test_a_list_receives_a_list() -> None:
    (y,) = recursion(product(), (GIVEN, SCALE))
    xs = np.array([1.0, 2.0, 4.0])
    by_list, by_scale = ta.vjp(y, [GIVEN, SCALE])
    found, slope_of_scale = run([by_list, by_scale], {GIVEN: list_of(xs), SCALE: 0.7})
    assert slope_of_scale == pytest.approx(slope(lambda w: product_of(xs, w), 0.7), rel=1e-8)
    want = [
        slope(lambda v, k=k: product_of([*xs[:k], v, *xs[k + 1 :]], 0.7), xs[k]) for k in range(3)
    ]
    assert list_values(found.item()) == pytest.approx(want, rel=1e-7)
    assert str(found.item().dtype) == "List'"


def test_both_modes_agree_in_every_mix_of_two() -> None:
    (y,) = recursion(product(), (GIVEN, SCALE))
    (reverse,) = ta.vjp(y, [SCALE])
    forward = ta.jvp(y, {SCALE: ALONG})
    (twice,) = ta.vjp(reverse, [SCALE])
    mixes = [
        ta.jvp(forward, {SCALE: ALONG}),
        ta.jvp(reverse, {SCALE: ALONG}),
        ta.vjp(forward, [SCALE])[0],
    ]
    values = {GIVEN: list_of([0.5, 1.5, 2.0, 3.0]), SCALE: 0.7}
    want = run(twice, values)
    assert run(forward, {**values, ALONG: 1.0}) == pytest.approx(run(reverse, values), rel=1e-12)
    for mix in mixes:
        assert run(mix, {**values, ALONG: 1.0}) == pytest.approx(want, rel=1e-12)


def calls_of(tensors: Any, values: dict[Tensor, Any], monkeypatch: pytest.MonkeyPatch) -> int:
    """How many calls of definitions are run."""
    count = 0
    plain = reference.run_control

    def counted(op: Any, *rest: Any) -> Any:
        nonlocal count
        count += isinstance(op, Recursion)
        return plain(op, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(reference, "run_control", counted)
        ta.interpret(tensors, values)
    return count


def test_calls_grow_as_those_of_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    (y,) = recursion(product(), (GIVEN, SCALE))
    (first,) = ta.vjp(y, [SCALE])
    (second,) = ta.vjp(first, [SCALE])
    along = ta.jvp(y, {SCALE: ALONG})
    twice = ta.jvp(along, {SCALE: ALONG})
    for tensor, most in [(y, 1), (first, 2), (along, 2), (second, 5), (twice, 5)]:
        counts = []
        for n in (8, 16):
            values = {GIVEN: list_of(list(np.linspace(0.5, 1.5, n))), SCALE: 0.7, ALONG: 1.0}
            counts.append(calls_of(tensor, values, monkeypatch))
        assert counts == [9 * most, 17 * most]


def tree_of(depth: int, rng: np.random.Generator) -> Record:
    if depth == 0:
        return Record(Tree, 0, (np.array(rng.uniform(0.5, 1.0)),))
    left, right = tree_of(depth - 1, rng), tree_of(rng.integers(depth), rng)
    return Record(Tree, 1, (handle(left), handle(right), rng.uniform(-0.5, 0.5, 2)))


def value(t: Record, a: float) -> float:
    if t.tag == 0:
        return float(t.values[0]) * a
    y, z = (value(v.item(), a) for v in t.values[:2])
    w = t.values[2]
    return math.tanh(a * y + w[0] * z * y + w[1])


def test_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    t, a = stand_ins([Field("t", (), Tree)])[0], scalar("a")
    (y,) = recursion(net(), (t, a))
    (by_a,) = ta.vjp(y, [a])
    (second,) = ta.vjp(by_a, [a])
    tree = tree_of(4, np.random.default_rng(1))
    values = {t: tree, a: 0.9}
    assert run(y, values) == pytest.approx(value(tree, 0.9), rel=1e-12)
    assert run(by_a, values) == pytest.approx(slope(lambda v: value(tree, v), 0.9), rel=1e-7)
    by_slope = slope(lambda v: slope(lambda u: value(tree, u), v, 1e-4), 0.9, 1e-4)
    assert run(second, values) == pytest.approx(by_slope, rel=1e-4)
    forward = ta.jvp(y, {a: ALONG})
    assert run(forward, {**values, ALONG: 1.0}) == pytest.approx(run(by_a, values), rel=1e-12)
    counts = [calls_of(g, {**values, ALONG: 1.0}, monkeypatch) for g in (y, by_a, forward)]
    assert counts[1] == counts[2] == 2 * counts[0]


def test_a_record_used_twice_receives_a_sum() -> None:
    (y,) = recursion(product(), (GIVEN, SCALE))
    (z,) = recursion(product(), (GIVEN, SCALE * 2))
    (found,) = ta.vjp(y + z, [GIVEN])
    xs = [0.5, 1.5]
    want = [
        slope(lambda v: product_of([v, 1.5], 0.7) + product_of([v, 1.5], 1.4), 0.5),
        slope(lambda v: product_of([0.5, v], 0.7) + product_of([0.5, v], 1.4), 1.5),
    ]
    made = run(found, {GIVEN: list_of(xs), SCALE: 0.7}).item()
    assert list_values(made) == pytest.approx(want, rel=1e-8)


def test_what_a_program_makes_into_records_and_opens_again() -> None:
    x, w = scalar("x"), scalar("w")
    (y,) = recursion(product(), (cons_list([x, x * x, ta.exp(w)]), w))
    (gx, gw) = ta.vjp(y, [x, w])
    (fx,) = ta.vjp(gw, [x])

    def f(x: float, w: float) -> float:
        return product_of([x, x * x, math.exp(w)], w)

    found = run([gx, gw, fx], {x: 0.6, w: 0.8})
    want = [slope(lambda v: f(v, 0.8), 0.6), slope(lambda v: f(0.6, v), 0.8)]
    assert found[:2] == pytest.approx(want, rel=1e-8)
    mixed = slope(lambda v: slope(lambda u: f(v, u), 0.8, 1e-4), 0.6, 1e-4)
    assert found[2] == pytest.approx(mixed, rel=1e-5)


def test_mutual_calls_and_several_results() -> None:
    """(x * (x + 1) * ..., n) by two functions in turn; the second result has no derivative."""
    params = [[Field("x", (), FLOAT64), Field("n", (), INT64)] for _ in range(2)]
    even, odd = (stand_ins(p) for p in params)
    types = [Field("p", (), FLOAT64), Field("m", (), INT64)]
    first, second = Definition("even", even, types), Definition("odd", odd, types)
    for made, other, (x, n) in ((first, second, even), (second, first, odd)):
        p, m = recursion(other, (x + 1.0, n - 1))
        one, zero = ta.topi.full((), 1.0, "float64"), ta.topi.full((), 0, "int64")
        results = [branch(n > 0, arms, (x, n)) for arms in ([one, x * p], [zero, m + 1])]
        made.complete(results)
    x, k = scalar("x"), stand_ins([Field("k", (), INT64)])[0]
    p, m = recursion(first, (x, k))
    (g,) = ta.vjp(p, [x])
    assert run([p, m], {x: 2.0, k: 3}) == [24.0, 3]
    want = slope(lambda v: v * (v + 1) * (v + 2), 2.0)
    assert run(g, {x: 2.0, k: 3}) == pytest.approx(want, rel=1e-9)


def test_calls_inside_of_a_loop() -> None:
    xs = ta.placeholder((4,), "float64", "xs")
    made = power()

    def step(c: Any, x: Any) -> tuple[Any, Any]:
        (y,) = recursion(made, (x * c, ta.topi.full((), 3, "int64")))
        return c + y, y

    last, _ = ta.scan(step, ta.topi.full((), 0.5, "float64"), xs)
    (g,) = ta.vjp(last, [xs])
    (h,) = ta.vjp(g.sum(), [xs])

    def f(v: Any) -> float:
        c = 0.5
        for x in v:
            c += (x * c) ** 3
        return c

    v = np.array([0.3, 0.9, 0.7, 1.1])
    steps = 1e-5 * np.eye(4)
    want = [(f(v + e) - f(v - e)) / 2e-5 for e in steps]
    assert run(g, {xs: v}) == pytest.approx(want, rel=1e-7)
    whole = run(g, {xs: v + 1e-5}) - run(g, {xs: v - 1e-5})
    assert run(h, {xs: v}) == pytest.approx(whole / 2e-5, rel=1e-5)
    forward = ta.jvp(last, {xs: ta.topi.full((4,), 1.0, "float64")})
    assert run(forward, {xs: v}) == pytest.approx(sum(want), rel=1e-7)


def test_types_of_derivatives() -> None:
    tangent = tangent_type(Tree)
    assert [v.name for v in tangent.variants] == ["zero", "Leaf", "Node"]
    assert tangent_type(tangent) is tangent is tangent_type(Tree)
    assert [f.dtype for f in tangent.variants[2].fields] == [tangent, tangent, FLOAT64]
    plain = RecordType("Plain").complete([Variant("Only", (Field("n", (), INT64),))])
    assert not plain.is_differentiable and places(plain.variants[0]) == []
    zero, one = inject(tangent, 0, ()), inject(tangent, 1, (scalar("x"),))
    (x,) = one.op.inputs  # type: ignore[union-attr]
    total = fields_of(added(added(zero, one), added(one, zero)), 1)[0]
    assert run(total, {x: 1.5}) == 3.0


def test_what_cannot_be_asked_for() -> None:
    (y,) = recursion(product(), (GIVEN, SCALE))
    flags = RecordType("Flags").complete([Variant("Flag", (Field("n", (), INT64),))])
    with pytest.raises(DTypeError, match="cannot differentiate by f of dtype Flags"):
        ta.vjp(y, [stand_ins([Field("f", (), flags)])[0]])
    assert isinstance(y.op, Recursion)
    check_no_batch(y.op, ())
    assert not has_recursion(y.op) and has_recursion(
        branch(tag_of(GIVEN), [y, y], (GIVEN, SCALE)).op
    )  # type: ignore[arg-type]
    assert Derived.__dataclass_fields__.keys() == {"saving", "linear", "wanted", "shared"}


def test_what_a_record_receives_is_added() -> None:
    sums, parts = RecordSums(), stand_ins([Field(n, (), tangent_type(List)) for n in "ab"])
    assert sums.adjoint(GIVEN) is None
    sums.receive(GIVEN, parts[0])
    assert sums[GIVEN] is parts[0]
    sums.receive(GIVEN, parts[1])
    adjoint = sums.adjoint(GIVEN)
    assert adjoint is not None and isinstance(sums[GIVEN].op, Recursion)
    assert sums[GIVEN].op.operands == parts
